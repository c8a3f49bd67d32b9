"""The control laws of rocc.p4 and rcp.p4: in floating point as in the papers, and in integer arithmetic with the parameters of
the tables. test_arithmetic.py compares the two, and the STF tests compare the programs with the integer version."""

import math


def rocc(rate, queue, old, *, line, sent, q_ref=0.6, q_mid=1.2, q_max=1.32, alpha=0.45, beta=2.25, floor=0.001):
    """RoCC's controller. `rate` and `line` are in the same unit; queues and `sent`, the bytes per period at line rate, in bytes."""
    if queue >= q_max * sent and rate > line / 8:
        rate = floor * line
    elif queue - old >= q_mid * sent and rate > line / 8:
        rate = rate / 2
    else:
        level = 2
        while rate < line / level and level < 64:
            level *= 2
        unit = (line / 10_000) / (sent * 600 / 500_000) / (level / 2)
        rate -= alpha * unit * (queue - q_ref * sent) + beta * unit * (queue - old)
    return min(max(rate, floor * line), line)


def rocc_row(line, sent, period, inverse, q_ref=0.6, q_mid=1.2, q_max=1.32, alpha=0.45, beta=2.25, floor=0.001):
    """Returns the parameters of an entry of rocc_port; `line` in kbit/s."""
    gain = (line / 10_000) / (sent * 600 / 500_000) * 2**16
    a = round(alpha * gain)
    return dict(period=period, inverse=inverse, qmid=round(q_mid * sent), qmax=round(q_max * sent), fmin=round(floor * line),
                fmax=line, alpha_qref=a * round(q_ref * sent), alpha_gain=a, beta_gain=round(beta * gain))


def rocc_integers(row, rate, queue, old, elapsed):
    """Computes the new rate as rocc_rate.p4 does."""
    rate = rate or row["fmax"]
    if queue >= row["qmax"] and rate > row["fmax"] >> 3:
        rate = row["fmin"]
    elif max(0, queue - old) >= row["qmid"] and rate > row["fmax"] >> 3:
        rate >>= 1
    else:
        level = next((n for n in range(5) if rate >= row["fmax"] >> (n + 1)), 5)
        periods = 1 if queue else min(max(1, elapsed * row["inverse"] >> 32), 0xFFFF)
        increase = row["alpha_qref"] * periods + row["beta_gain"] * old
        decrease = (row["alpha_gain"] + row["beta_gain"]) * queue
        delta = min(abs(increase - decrease) >> (16 + level), row["fmax"])
        rate = rate + delta if increase >= decrease else max(0, rate - delta)
    return min(max(rate, row["fmin"]), row["fmax"])


def rcp(rate, arrived, queue, elapsed, *, line, rtt, alpha=0.4, beta=0.4, gamma=1.0, floor=0.001):
    """RCP's equation over `elapsed`; times in s, sizes in bytes, rates in bit/s."""
    capacity = gamma * line / 8
    error = alpha * (capacity * elapsed - arrived) - beta * queue * elapsed / rtt
    return min(max(rate * (1 + error / (capacity * rtt)), floor * line), gamma * line)


def rcp_row(line, rtt, period, alpha=0.4, beta=0.4, gamma=1.0, floor=0.001):
    """Returns the parameters of an entry of rcp_port; `line` in kbit/s, times in ticks of 1 ns."""
    capacity = gamma * line * 1000 / 8 / 1e9
    return dict(period=period, rmin=round(floor * line), rmax=round(gamma * line), capacity=round(capacity * 2**16),
                alpha_gain=round(alpha * 2**16), beta_gain=round(beta / rtt * 2**32),
                inverse_bdp=round(2**32 / (capacity * rtt)))


def rcp_integers(row, rate, arrived, queue, elapsed):
    """Computes the new rate as rcp_rate.p4 does."""
    rate = rate or row["rmax"]
    elapsed, queue = min(elapsed, 2**24 - 1), min(queue, 2**26 - 1)
    increase = row["alpha_gain"] * (row["capacity"] * elapsed >> 16)
    decrease = row["alpha_gain"] * arrived + (queue * elapsed >> 16) * row["beta_gain"]
    delta = min(rate * (min(abs(increase - decrease), 2**40 - 1) * row["inverse_bdp"] >> 32) >> 16, row["rmax"])
    rate = rate + delta if increase >= decrease else max(0, rate - delta)
    return min(max(rate, row["rmin"]), row["rmax"])


def entry(table, action, port, row):
    """Returns the STF statement that adds an entry."""
    return f"add {table} port:{port} {action}({', '.join(f'{name}:{value}' for name, value in row.items())})"


def close(a, b, share):
    return math.isclose(a, b, rel_tol=share, abs_tol=2)
