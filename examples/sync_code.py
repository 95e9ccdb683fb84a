"""Code that does not await: the same names, under .sync; and a task that is a plain function.

Prints:
    stored, state pending
    1 run
    result 3 from thread mainspring-task-1
    queues: none with unfinished jobs
"""

import threading

from mainspring import Mainspring

app = Mainspring("memory://")


@app.task
def add(a: int, b: int) -> str:  # not async: runs in a thread of the worker
    return f"{a + b} from thread {threading.current_thread().name}"


def main() -> None:
    job = add.sync.enqueue(1, b=2)
    print(f"stored, state {job.job().state}")
    runs = app.sync.drain()  # runs what is due, here; a real worker is its own process
    print(f"{runs} run")
    print(f"result {job.result(timeout=10)}")
    names = [queue.name for queue in app.sync.queues.list()]
    print(f"queues: {', '.join(names) or 'none with unfinished jobs'}")
    app.sync.close()


if __name__ == "__main__":
    main()
