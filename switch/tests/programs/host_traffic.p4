// A table of one's own beside Weir's: counts the packets and bytes that a switch forwards to each host. The entries come from
// the controller (switch/tests/it/own_table.rs). Compiled by
//   p4c-bm2-ss --p4v 16 -I ../../../p4src --p4runtime-files host_traffic.p4info.txtpb -o host_traffic.json host_traffic.p4
#define PROGRAM_CONTROLS "../../switch/tests/programs/host_traffic_control.p4"
#define PROGRAM_INGRESS HostTraffic
#include "include/weir.p4"
#include "include/ecn_egress.p4"

V1Switch(WeirParser(), WeirVerifyChecksum(), WeirIngress(), EcnEgress(), WeirComputeChecksum(), WeirDeparser()) main;
