"""Creates the fabric of an experiment in Mininet: hosts, switches and links, with the names that `weir` uses.

`weir run x.yaml --backend mininet` and `weir mininet topology.json` start this package and send it a plan and requests
(`serve`). The package does not handle P4 programs, routes or schemes; `weir` computes these.

- `plan`: description of the fabric, from JSON.
- `fabric`: creates and removes the fabric in Mininet.
- `links`, `emulator`: veth pairs without offloads, and the link emulator between them.
- `switches`: processes of BMv2 and of Weir's switch, one per switch or one for all switches.
- `processes`: starts and stops these processes.
- `ownership`: marks of what Weir created on this machine, and cleanup after a killed run.
- `jobs`: pings and host agents in the hosts.
- `command_line`: Mininet's command line, with `weir queues`, `weir trace h1 h2` and the like.
- `serve`: executes requests of `weir`.
"""
