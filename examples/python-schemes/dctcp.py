"""DCTCP as the built-in scheme has it: python3 examples/python-schemes/dctcp.py"""

from pathlib import Path

import weir


class PyDctcp(weir.Scheme):
    """DCTCP: slows down by the share of bytes that were marked in a round trip."""

    like = "dctcp"
    gauges = ("alpha",)
    g = weir.Parameter(0.0625, "Weight of the newest round trip in alpha.", low=0.0001, high=1.0)
    increase = weir.Parameter(1.0, "Packets more in flight after a round trip without marks.")

    def start(self, flow):
        self.flow = flow
        self.rate = flow.nic_rate
        self.alpha = 1.0
        self.acked = self.marked = 0
        self.round_end = self.cut_until = None
        return self.limit(self.rate)

    def limit(self, rate):
        self.rate = min(max(rate, self.flow.nic_rate / 1000), self.flow.nic_rate)
        return self.flow.bytes_at(self.rate), self.rate

    def on_ack(self, ack):
        self.acked += ack.acked
        self.marked += ack.acked if ack.marked else 0
        is_round_over = self.round_end is None or ack.seq > self.round_end
        if is_round_over:
            if self.round_end is not None and self.acked > 0:
                self.alpha = (1 - self.g) * self.alpha + self.g * (self.marked / self.acked)
                self.acked = self.marked = 0
            self.round_end = ack.snd_nxt
        if self.cut_until is not None and ack.seq > self.cut_until:
            self.cut_until = None
        if self.cut_until is not None:
            return None
        if ack.marked:
            self.cut_until = ack.snd_nxt
            return self.limit(self.rate * (1 - self.alpha / 2))
        if is_round_over:
            return self.limit(self.rate + self.increase * (self.flow.payload * 8 / self.flow.base_rtt))
        return None

    def on_loss(self, loss):
        if self.cut_until is not None and loss.seq < self.cut_until:
            return None
        self.cut_until = loss.snd_nxt
        return self.limit(self.rate * 0.5)


if __name__ == "__main__":
    quickstart = Path(__file__).parents[2] / "experiments" / "quickstart.yaml"
    slow = {"scheme": PyDctcp, "set": {"g": 0.5}, "label": "g = 0.5"}
    run = weir.run(quickstart, schemes=["hpcc", PyDctcp, slow])
    print(run.summary.to_pandas()[["scheme", "peak_queue_kb", "jain_index"]].to_string(index=False))
