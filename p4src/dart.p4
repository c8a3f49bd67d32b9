// Dart's switch: ECN, and short messages deflected in order around congested ports (IOFD; arXiv 1805.11158, section IV).
//
//   sender --- data ---> [switch: queue of the port too long?] --x--> [switch] ---> receiver
//                            '--- the whole message by another port ---> [switch] ---^
//
// Deflection acts before marking: its threshold is below ECN's, and deflected packets do not join the queue that marks.
#define WEIR_DEFLECTS
#include "include/weir.p4"
#include "include/ecn_egress.p4"

V1Switch(WeirParser(), WeirVerifyChecksum(), WeirIngress(), EcnEgress(), WeirComputeChecksum(), WeirDeparser()) main;
