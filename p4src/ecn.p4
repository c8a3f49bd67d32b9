// ECN only: switches mark, hosts react (DCTCP, DCQCN). Also for schemes that measure only delay.
//
//   sender --- data, ECT ---> [switch: CE if the queue is long] ---> receiver
//          <-- ACK with ECN_ECHO, or CNP ---------------------------
#include "include/weir.p4"
#include "include/ecn_egress.p4"

V1Switch(WeirParser(), WeirVerifyChecksum(), WeirIngress(), EcnEgress(), WeirComputeChecksum(), WeirDeparser()) main;
