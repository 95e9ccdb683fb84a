"""Pages of jobs: read along sorted sets in the requested order, or from the smallest set with every match."""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from ...clock import micros
from ...ids import JobId
from ...records.job import Job, State
from ...records.query import Cursor, Filter, Sort
from ..rules import matches_filter
from .access_paths import WAITING, AccessPath, RegisterNames, access_paths, names_in, not_yet_due, ranks_in
from .handle import RedisHandle
from .index import id_range
from .job_reads import read_brief, read_if
from .oldest import beginning
from .orders import Entry, LaterJobs, ListOrder, MergedOrders, ReadyJobs, ScoredOrder, SuspectJobs, is_beyond
from .records import Raw, may_be, packed
from .scan import IdScan
from .shard import Shard, Shards

# Largest set whose ids are all read, when jobs are listed by id.
MAX_IDS_READ_WHOLE = 20_000
# Members of sets that are read in the time in which a walk reads one job, or a bit longer.
MEMBERS_PER_JOB = 40
# Before a scan a walk from the newest job reads this number of times what it needs if matching jobs are spread evenly.
PROBE_RATIO = 20
# With fewer members than that, no walk is tried first.
MIN_PROBED_MEMBERS = 15_000
# Largest set whose ids are read to intersect it with another.
MAX_IDS_INTERSECTED = 5_000
# Ids for which a larger set is scanned at first.
SCANNED_IDS = 400
# Largest set whose jobs are all read, when they are listed in another order.
MAX_JOBS_READ_WHOLE = 5_000
# Jobs read per round trip: as many as requested at first, then twice as many each time.
MAX_PAGE_JOBS = 1_000
# If at least one job in this number matches, a walk along the order is tried first.
DENSE_RATIO = 5
# Jobs that such a walk reads at most.
MAX_PROBED_JOBS = 500


class ListRequest(NamedTuple):
    """The parameters of a page. `beyond` is the last entry of the page before."""

    which: Filter
    now: datetime
    limit: int
    beyond: Entry | None
    newest: bool
    sort: Sort
    brief: bool = False

    def may_match(self, raw: Raw) -> bool:
        """Whether a job with these stored values may match: the others need not be decoded."""
        which = self.which
        return may_be(raw, which.states, which.queues, which.tasks, micros(self.now))

    def matching(self, jobs: Sequence[Job]) -> list[Job]:
        return [job for job in jobs if self._has_sort_time(job) and matches_filter(job, self.which, self.now)]

    def _has_sort_time(self, job: Job) -> bool:
        return self.sort == "created" or (job.state is State.PENDING if self.sort == "due" else job.state.final)

    def entry_of(self, job: Job) -> Entry:
        at = {"created": None, "due": job.run_at, "finished": job.finished_at}[self.sort]
        return _entry(at, job.id, self.sort)

    def in_order(self, jobs: Sequence[Job]) -> list[Job]:
        return sorted(jobs, key=self.entry_of, reverse=self.newest)

    @property
    def first_step(self) -> int:
        return min(max(self.limit, 50), MAX_PAGE_JOBS)


def _entry(at: datetime | None, id: JobId, sort: Sort) -> Entry:
    return 0 if sort == "created" or at is None else micros(at), packed(id)


class RedisLists(RedisHandle):
    """Lists of jobs."""

    async def jobs(
        self,
        which: Filter,
        *,
        now: datetime,
        limit: int,
        after: Cursor | None = None,
        newest: bool = False,
        sort: Sort = "created",
        brief: bool = False,
    ) -> list[Job]:
        with self._clock.outside():
            return await page(self._open(), which, now, limit, after, newest, sort, brief)


async def page(
    shards: Shards,
    which: Filter,
    now: datetime,
    limit: int,
    after: Cursor | None,
    newest: bool,
    sort: Sort,
    brief: bool = False,
) -> list[Job]:
    """A page of jobs: the pages of all shards, merged."""
    beyond = None if after is None else _entry(after.at, after.id, sort)
    request = ListRequest(which, now, limit, beyond, newest, sort, brief)
    pages = await shards.each(lambda shard: _page(shard, request))
    if len(pages) == 1:
        return pages[0]
    return request.in_order([job for page in pages for job in page])[:limit]


class ListPlan(NamedTuple):
    """How to find a page."""

    along: AccessPath
    """An ordered path to walk along."""
    few: list[AccessPath]
    """Paths to intersect instead, if that is cheaper."""
    most_read: int = 0
    """The jobs that a walk reads first all the same; 0 if there are no other paths."""
    scan: bool = False
    """Whether to look for the first ids of the one path in `few`: it is large, and nearly all of its jobs match."""
    odd: int = 0
    """Number of jobs whose ids do not tell when they were made."""


async def _page(shard: Shard, request: ListRequest) -> list[Job]:
    """The page of one shard."""
    if request.which.ids is not None:
        return await _page_of_ids(shard, {packed(id) for id in request.which.ids}, request)
    names = await names_in(shard)
    if not names.groups_of(request.which):
        return []
    plan = await _plan(shard, request, names)
    if plan.scan and (found := await _from_beginning(shard, request, names, plan)) is not None:
        return found
    if not plan.few or plan.most_read:
        orders, others = await _orders(shard, request, names, plan.along), _others(shard.base, request, [plan.along])
        found = await _walk(shard, orders, request, others, plan.most_read)
        if found is not None:
            return found
    if plan.scan:
        return await _scanned(shard, request, names, plan)
    members = [await _members(shard, request, names, path) for path in plan.few]
    return await _page_of_ids(shard, set.intersection(*members), request, _others(shard.base, request, plan.few))


async def _from_beginning(shard: Shard, request: ListRequest, names: RegisterNames, plan: ListPlan) -> list[Job] | None:
    """The page of the oldest waiting jobs, if they are near the oldest unfinished ones: a walk along all finished jobs
    before them, or a scan of all that wait, takes longer."""
    which = request.which
    given = (which.queues, which.tasks, which.created_after, which.created_before)
    states = {*(which.states or ())}
    if request.newest or plan.odd or "pending" not in states or not states <= {*WAITING} or any(given):
        return None
    if (known := await beginning(shard, names)) is None:
        return None
    start, earlier = known
    before = (0, (int.from_bytes(start + bytes(10), "big") - 1).to_bytes(16, "big"))
    if request.beyond is not None and request.beyond > before:
        return None
    found = await _page_of_ids(shard, {*earlier}, request)
    left = request._replace(limit=request.limit - len(found), beyond=before)
    if not left.limit:
        return found
    rest = await _walk(shard, await _orders(shard, left, names, plan.along), left, (), plan.most_read)
    return None if rest is None else found + rest


async def _plan(shard: Shard, request: ListRequest, names: RegisterNames) -> ListPlan:
    which, created = request.which, request.sort == "created"
    # With sort "finished" the ordered sets are by state already.
    without = which if request.sort != "finished" else replace(which, states=None)
    found = list(access_paths(shard.base, without, names, request.now))
    odd, *each = await shard.multi([("ZCARD", f"{shard.base}:odd"), *(one.size for path in found for one in path.sets)])
    sizes = iter(each)
    counted = [(sum(next(sizes) for _ in path.sets), path) for path in found]
    length, along = min((one for one in counted if one[1].ordered), key=lambda one: one[0]) if created else counted[0]
    sets = [one for one in counted[0 if _is_narrow(which) else 1 :] if not (created and one[1].ordered)]
    count, few = min(sets, key=lambda one: one[0], default=(0, None))
    if created and (both := _two_narrow(counted if _is_narrow(which) else counted[1:])):
        return ListPlan(along, both)
    if few is None or (created and count >= length):
        looked_up = length <= MAX_IDS_INTERSECTED and _others(shard.base, request, [along])
        return ListPlan(along, [along] if looked_up and created else [])
    if created and count > MAX_JOBS_READ_WHOLE and _tells_all(which, odd):
        by_end = not odd and all(one.finished for one in few.sets)
        most = PROBE_RATIO * request.limit * length // count if request.newest and not by_end else 0
        most = max(MAX_PROBED_JOBS, min(most, count // MEMBERS_PER_JOB))
        return ListPlan(along, [few], most, scan=True, odd=odd)
    if count > (MAX_IDS_READ_WHOLE if created else MAX_JOBS_READ_WHOLE):
        return ListPlan(along, [])
    dense = created and count > MIN_PROBED_MEMBERS and DENSE_RATIO * count > length
    return ListPlan(along, [few], MAX_PROBED_JOBS if dense else 0)


def _others(base: str, request: ListRequest, paths: Sequence[AccessPath]) -> list[list[str]]:
    """The names of the sets of ids that the filter names, but for those of the paths: ids are looked up in them before
    jobs are read."""
    which = request.which
    found = [[f"tag:{tag}"] for tag in which.tags or ()]
    if which.schedules is not None:
        found.append([f"made-by:{name}" for name in which.schedules])
    if which.errors is not None:
        found.append([f"error:{kind}" for kind in which.errors])
    known = [{one.key for one in path.sets} for path in paths if request.sort == "created"]
    return [names for names in found if not any(some.issuperset(f"{base}:{name}" for name in names) for some in known)]


def _is_narrow(which: Filter) -> bool:
    """Whether the path through all jobs is shorter than all jobs."""
    return any(one is not None for one in (which.queues, which.tasks, which.created_after, which.created_before))


def _two_narrow(counted: Sequence[tuple[int, AccessPath]]) -> list[AccessPath]:
    """Two paths to intersect, as ids are enough for that; none if they are large, or one is so small that its jobs can
    be read."""
    both = sorted((one for one in counted if one[0] <= MAX_IDS_INTERSECTED), key=lambda one: one[0])[:2]
    return [path for _, path in both] if len(both) == 2 and both[0][0] > MAX_PROBED_JOBS else []


def _tells_all(which: Filter, odd: int) -> bool:
    """Whether the filter has only states, queues and tasks, and times of creation that ids tell."""
    others = (which.tags, which.schedules, which.errors, which.workers, which.key_prefix, which.ends)
    by_time = which.created_after is not None or which.created_before is not None
    return all(one is None for one in others) and not (by_time and odd)


async def _scanned(shard: Shard, request: ListRequest, names: RegisterNames, plan: ListPlan) -> list[Job]:
    """The page of the request, from the first ids of a large set."""
    found, beyond, count, step = list[Job](), request.beyond, SCANNED_IDS, request.first_step
    which, newest, limit = request.which, request.newest, request.limit
    more = await not_yet_due(shard, names.groups_of(which), request.now) if "scheduled" in (which.states or ()) else []
    bounds = id_range(which.created_after, which.created_before)
    while True:
        scan = IdScan(shard, count, None if beyond is None else beyond[1], newest, bounds, by_time=not plan.odd)
        ids = await scan.first(plan.few[0].sets, more)
        for start in range(0, len(ids), step):
            found += await _read_matching(shard, ids[start : start + step], request)
            if len(found) >= limit:
                return found[:limit]
        if len(ids) < count:
            return found
        beyond, count = (0, ids[-1]), 4 * count


# a set


async def _members(shard: Shard, request: ListRequest, names: RegisterNames, path: AccessPath) -> set[bytes]:
    scan = IdScan(shard, sys.maxsize, None, False, (b"-", b"+"), by_time=False)
    found = await scan.first(path.sets)
    if "scheduled" in (request.which.states or ()):
        found += await not_yet_due(shard, names.groups_of(request.which), request.now)
    return set(found)


async def _page_of_ids(
    shard: Shard, ids: set[bytes], request: ListRequest, others: Sequence[Sequence[str]] = ()
) -> list[Job]:
    """The page of the request among these ids."""
    beyond, newest, limit = request.beyond, request.newest, request.limit
    if request.sort != "created":
        found = request.in_order(await _read_matching(shard, sorted(ids), request, others))
        return [job for job in found if is_beyond(request.entry_of(job), beyond, newest)][:limit]
    left = _ids_beyond(ids, beyond, newest)
    found, start, step = [], 0, MAX_PAGE_JOBS if others else request.first_step
    while len(found) < limit and start < len(left):
        found += await _read_matching(shard, left[start : start + step], request, others)
        start, step = start + step, min(2 * step, MAX_PAGE_JOBS)
    return found[:limit]


def _ids_beyond(ids: set[bytes], beyond: Entry | None, newest: bool) -> list[bytes]:
    found = sorted(ids)
    if beyond is not None:
        found = found[: bisect_left(found, beyond[1])] if newest else found[bisect_right(found, beyond[1]) :]
    return found[::-1] if newest else found


async def _read_matching(
    shard: Shard, ids: Sequence[bytes], request: ListRequest, others: Sequence[Sequence[str]] = ()
) -> list[Job]:
    """The jobs of these ids that match the request, in the order of the ids. `others` are names of sets: an id has to
    be in one set of each sequence."""
    for sets in others:
        ids = await _in_sets(shard, ids, sets)
    if not request.brief:
        return request.matching(await read_if(shard, ids, request.may_match))
    unfinished = request.which.states is not None and "completed" not in request.which.states
    return request.matching(await read_brief(shard, ids, request.may_match, unfinished=unfinished))


async def _in_sets(shard: Shard, ids: Sequence[bytes], names: Sequence[str]) -> list[bytes]:
    """The ids that are in one of the sorted sets of these names."""
    found = list[bytes]()
    for start in range(0, len(ids) if names else 0, MAX_PAGE_JOBS):
        found += await shard.script("among", [len(names), *names, *ids[start : start + MAX_PAGE_JOBS]])
    return found


# along the orders


async def _walk(
    shard: Shard, orders: Sequence[ListOrder], request: ListRequest, others: Sequence[Sequence[str]], most_read: int
) -> list[Job] | None:
    """The page, read along these orders. None if it is not full after `most_read` jobs, unless that is 0."""
    merged = MergedOrders(shard, orders, request.beyond, request.newest)
    found, step, read, more = list[Job](), request.first_step, 0, True
    while more and len(found) < request.limit:
        if most_read and read >= most_read:
            return None
        step = min(step, most_read - read) if most_read else step
        entries = await merged.next(step)
        found += await _read_matching(shard, [id for _, id in entries], request, others)
        more = len(entries) == step
        step, read = min(2 * step, MAX_PAGE_JOBS), read + len(entries)
    return found[: request.limit]


async def _orders(shard: Shard, request: ListRequest, names: RegisterNames, along: AccessPath) -> list[ListOrder]:
    """The orders to walk along for the requested sort."""
    base, which = shard.base, request.which
    if request.sort == "finished":
        return [ScoredOrder(f"{base}:ended:{name}") for name in names.ends_of(which)]
    if request.sort == "due":
        return await _by_due(shard, names.groups_of(which))
    low, high = id_range(which.created_after, which.created_before)
    if (low, high) == (b"-", b"+"):
        return [ListOrder(one.key) for one in along.sets]
    *sets, odd = along.sets
    return [*(ListOrder(one.key, low, high) for one in sets), ListOrder(odd.key)]


async def _by_due(shard: Shard, groups: Sequence[str]) -> list[ListOrder]:
    base, ranks = shard.base, await ranks_in(shard, groups)
    orders: list[ListOrder] = [LaterJobs(f"{base}:{key}:{name}") for name in groups for key in ("later", "limited")]
    orders += [ReadyJobs(f"{base}:ready:{name}", rank) for name in groups for rank in ranks[name]]
    jobs = await read_if(shard, await shard.call("SMEMBERS", f"{base}:suspect"))
    suspects = [(micros(job.run_at), packed(job.id)) for job in jobs if job.state is State.PENDING]
    return [*orders, SuspectJobs(suspects)] if suspects else orders
