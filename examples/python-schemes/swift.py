"""Swift as the built-in scheme has it (docs/algorithms/swift.md): python3 examples/python-schemes/swift.py"""

import math

import weir


class Window:
    """A window in packets that follows a delay (Swift Algorithm 1)."""

    def __init__(self, cwnd):
        self.cwnd = cwnd
        self.cut_at = None

    def may_cut(self, now_ps, rtt_ps):
        # In whole picoseconds: both sides are often equal, which differences of floats are not.
        return self.cut_at is None or now_ps - self.cut_at >= rtt_ps

    def set(self, cwnd, now_ps, limits):
        before, self.cwnd = self.cwnd, min(max(cwnd, limits[0]), limits[1])
        if self.cwnd < before:
            self.cut_at = now_ps

    def on_ack(self, ack, packets, delay, target, scheme):
        if delay < target:
            increase = scheme.ai / self.cwnd if self.cwnd >= 1 else scheme.ai
            self.set(self.cwnd + increase * packets, ack.now_ps, scheme.limits)
        elif self.may_cut(ack.now_ps, ack.rtt_ps):
            cut = min(scheme.beta * (delay - target) / delay, scheme.max_mdf)
            self.set(self.cwnd * (1 - cut), ack.now_ps, scheme.limits)


class PySwift(weir.Scheme):
    """Swift: keeps the delays of fabric and end hosts at targets."""

    like = "swift"
    gauges = ("fcwnd", "ecwnd")
    base_target = weir.Parameter("25us", "Target of the fabric delay, without the scaling.")
    hop_scaling = weir.Parameter("1us", "Increase of the target for each switch.")
    fs_range = weir.Parameter("100us", "Largest increase of the target for small windows.")
    fs_min_cwnd = weir.Parameter(0.1, "Window below which the increase is fs_range.", low=0.001, high=1.0)
    fs_max_cwnd = weir.Parameter(256.0, "Window above which there is no increase.", low=2.0)
    ai = weir.Parameter(1.0, "Packets more in each round trip.", low=0.001)
    beta = weir.Parameter(0.8, "Multiplicative decrease.", low=0.01, high=1.0)
    max_mdf = weir.Parameter(0.5, "Largest share of a decrease.", low=0.01, high=0.99)
    min_cwnd = weir.Parameter(0.01, "Smallest window.", low=0.0001, high=1.0)
    max_cwnd = weir.Parameter(256.0, "Largest window.", low=1.0)
    retx_reset = weir.Parameter(3, "Timeouts after which the window is the smallest.", low=1)
    endpoint_target = weir.Parameter("100us", "Target of the delay in the hosts.")
    endpoint_gain = weir.Parameter(0.25, "Weight of a sample of that delay.", low=0.001, high=1.0)

    def start(self, flow):
        self.flow = flow
        first = float(max(math.ceil(flow.bdp / flow.payload), 1))
        self.limits = (self.min_cwnd, max(self.max_cwnd, first))
        self.fabric, self.endpoint = Window(first), Window(self.limits[1])
        self.rtt, self.rtt_ps = flow.base_rtt, flow.base_rtt_ps
        self.hops, self.endpoint_delay, self.timeouts = 0, None, 0
        span = 1 / math.sqrt(self.fs_min_cwnd) - 1 / math.sqrt(self.fs_max_cwnd)
        self.fs_slope = self.fs_range / span
        self.fs_offset = -self.fs_slope / math.sqrt(self.fs_max_cwnd)
        return self.limit()

    @property
    def fcwnd(self):
        return self.fabric.cwnd

    @property
    def ecwnd(self):
        return self.endpoint.cwnd

    def limit(self):
        cwnd = min(self.fcwnd, self.ecwnd)
        if cwnd >= 1:
            return math.floor(cwnd) * self.flow.payload, None
        # Below one packet the pacer waits for rtt / cwnd after each.
        return self.flow.payload, self.flow.frame * 8 * cwnd / self.rtt

    def on_ack(self, ack):
        self.timeouts = 0
        if ack.hops is not None:
            self.hops = ack.hops
        if not ack.rtt:
            return None
        self.rtt, self.rtt_ps = ack.rtt, ack.rtt_ps
        sample = min(ack.endpoint_delay or 0.0, ack.rtt)
        old = sample if self.endpoint_delay is None else self.endpoint_delay
        self.endpoint_delay = old + self.endpoint_gain * (sample - old)
        scaling = self.fs_slope / math.sqrt(self.fcwnd) + self.fs_offset
        target = self.base_target + self.hops * self.hop_scaling + min(max(scaling, 0.0), self.fs_range)
        packets = ack.acked / self.flow.payload
        self.fabric.on_ack(ack, packets, ack.rtt - sample, target, self)
        self.endpoint.on_ack(ack, packets, self.endpoint_delay, self.endpoint_target, self)
        return self.limit()

    def on_loss(self, loss):
        self.timeouts = self.timeouts + 1 if loss.kind == "timeout" else 0
        if self.timeouts >= self.retx_reset:
            self.fabric.set(self.min_cwnd, loss.now_ps, self.limits)
        elif self.fabric.may_cut(loss.now_ps, self.rtt_ps):
            self.fabric.set(self.fcwnd * (1 - self.max_mdf), loss.now_ps, self.limits)
        return self.limit()


#: 32 senders into a buffer that does not hold their first windows.
INCAST = {
    "topology": {"kind": "star", "hosts": 33, "rate": "25Gbps"},
    "workload": {"kind": "incast", "senders": 32, "size": "100KB"},
    "schemes": ["swift"],
    "buffer": "100KB",
    "pfc": "off",
    "duration": "3ms",
}

if __name__ == "__main__":
    run = weir.run(INCAST, schemes=["swift", PySwift])
    print(run.summary.to_pandas()[["scheme", "mean_queue_kb", "retransmits"]].to_string(index=False))
