"""Brings up the fabric of an experiment in Mininet: hosts, switches and links, as `weir` names them.

`weir run x.yaml --backend mininet` and `weir mininet topology.json` start this package with a plan and tell it what
to do (`serve`). It knows no P4, no route and no scheme; everything that computes is in `weir`.

- `plan`: what is to be built, as JSON.
- `fabric`: builds it in Mininet, and takes it down again.
- `links`, `emulator`: veth pairs without offloads, and what carries the links.
- `switches`: the two switches, in a process each or all embedded ones in one.
- `processes`: how all of them are started and ended.
- `ours`: what belongs to us on this machine, and how the rest of a run that was killed is removed.
- `jobs`: pings and host agents in the hosts.
- `command_line`: Mininet's command line, with `weir queues`, `weir trace h1 h2` and the like.
- `serve`: the conversation with `weir`.
"""
