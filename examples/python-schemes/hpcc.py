"""HPCC as the built-in scheme has it (HPCC Algorithm 1): python3 examples/python-schemes/hpcc.py"""

from pathlib import Path

import weir

#: Bytes by which each switch lengthens a frame.
RECORD = 8


class Link:
    """The last record of a hop, and what was measured with it."""

    def __init__(self, hop, t):
        self.hop = hop
        self.inverse_bdp = 1 / (hop.rate / 8 * t)
        self.u = None


class PyHpcc(weir.Scheme):
    """HPCC: keeps the bytes in flight just below the bandwidth-delay product of every link."""

    like = "hpcc"
    gauges = ("u",)
    eta = weir.Parameter(0.95, "Target utilisation.", low=0.05, high=2.0, symbol="eta", source="HPCC 5.1")
    max_stage = weir.Parameter(0, "Additive increases before a multiplicative one.", source="HPCC simulator; 5 in the paper")
    w_ai = weir.Parameter("80B", "Additive increase of the window.", source="HPCC 5.1 fn4")

    def start(self, flow):
        self.flow = flow
        self.t = flow.base_rtt
        self.t_ticks = flow.base_rtt / flow.tick
        self.w_init = flow.nic_rate / 8 * self.t
        self.reference, self.stage = self.w_init, 0
        self.u = 1.0
        self.path, self.links = None, []
        self.last_update = 0
        return self.limit(self.w_init)

    def limit(self, window):
        return window, window * 8 / self.t

    def measure(self, hops):
        """Returns the largest u' of the path, and its weight: 0 if the hop has sent nothing new."""
        worst, tau = None, 0.0
        for number, (new, link) in enumerate(zip(hops, self.links), start=1):
            old, ticks = link.hop, new.ticks_since(link.hop)
            if ticks >= 1 << 23:
                continue  # older than the last record
            if ticks > 0:
                # The port also sent the records of this hop and those before.
                sent = new.bytes_since(old) * (1 + RECORD / self.flow.frame * number)
                queued = min(new.queue, old.queue) * link.inverse_bdp
                link.u = queued + sent * link.inverse_bdp * self.t_ticks / ticks
                link.hop = new
            if link.u is not None and (worst is None or link.u > worst):
                worst, tau = link.u, min(ticks / self.t_ticks, 1.0)
        return worst, tau

    def on_ack(self, ack):
        hops = ack.telemetry
        path = (len(hops), ack.path_id, ack.data_path)
        if path != self.path:
            # The first records of a path are only stored.
            self.path, self.links = path, [Link(hop, self.t) for hop in hops]
            self.last_update = max(self.last_update, ack.snd_nxt)
            return None
        worst, tau = self.measure(hops)
        if tau == 0.0:
            return None
        self.u += tau * (worst - self.u)
        if self.u >= self.eta or self.stage >= self.max_stage:
            window, stage = self.reference / (self.u / self.eta) + self.w_ai, 0
        else:
            window, stage = self.reference + self.w_ai, self.stage + 1
        window = min(max(window, self.w_init / 1000), self.w_init)
        if ack.seq > self.last_update:
            self.reference, self.stage, self.last_update = window, stage, ack.snd_nxt
        return self.limit(window)


if __name__ == "__main__":
    quickstart = Path(__file__).parents[2] / "experiments" / "quickstart.yaml"
    run = weir.run(quickstart, schemes=["fncc", "hpcc", PyHpcc])
    print(run.summary.to_pandas()[["scheme", "peak_queue_kb", "jain_index"]].to_string(index=False))
