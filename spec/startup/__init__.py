"""Start-up as a transition system: who loads, measures, sizes, allocates and attaches what, and in which order.

The budget is right only if it is taken at the right moment: after every weight is resident, before any pool exists. So
the order itself is specified: `protocols.py` says, as data, which steps wait for which; `system.py` what each step
does to a rank; `holdings.py` the bytes it moves, all of them from the budget's own formulas; `explorer.py` visits every
order a protocol leaves open, breadth first; `spec/laws/startup.py` judges what it finds, and `story.py` tells the
shortest way to what is wrong. `python -m spec.startup` (`make model`) does all of it.

A contributor who adds a kind of worker adds a `Protocol` to `protocols.py` and sees which law it breaks.

Upstream (SGLang, `srt/`): `managers/scheduler.py: init_model_worker`, `init_target_memory_pool`, `init_memory_pools`,
`init_all_attention_backends`; `managers/tp_worker.py: alloc_memory_pool`.
"""
