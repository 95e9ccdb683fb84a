"""The example shop that `mainspring demo` and `mainspring dev mainspring.demo.life:app` run."""
