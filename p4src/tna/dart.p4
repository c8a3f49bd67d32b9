// ../dart.p4 for Tofino: ECN, and short messages deflected in order around congested ports.
#define WEIR_DEFLECTS
#include "include/tofino.p4"
#include "../include/weir.p4"
#include "../include/ecn_egress.p4"
#define PROGRAM_EGRESS EcnEgress
#include "include/main.p4"
