// ../ecn.p4 for Tofino: switches mark, hosts do the rest.
#include "include/tofino.p4"
#include "../include/weir.p4"
#include "../include/ecn_egress.p4"
#define PROGRAM_EGRESS EcnEgress
#include "include/main.p4"
