// Why a packet was dropped, and what else is counted: the indices of the counters `drops` and
// `events`. The Rust twin of this list is read from this file by a test, so keep the form
// `const <type> <PREFIX>_<NAME> = <number>;   // <what happened>`, one a line.
#ifndef WEIR_REASONS_P4
#define WEIR_REASONS_P4

typedef bit<8> reason_t;
typedef bit<8> event_t;

const reason_t DROP_NONE            = 0;    // not dropped
const reason_t DROP_PARSE_ERROR     = 1;    // frame ends inside its Ethernet, IPv4 or port header
const reason_t DROP_NOT_IP          = 2;    // neither IPv4 nor a link probe
const reason_t DROP_BAD_IP_HEADER   = 3;    // IP version is not 4, or the header length is below 20
const reason_t DROP_IP_OPTIONS      = 4;    // IPv4 header with options
const reason_t DROP_BAD_IP_LENGTH   = 5;    // total length below 20, or longer than the frame
const reason_t DROP_BAD_IP_CHECKSUM = 6;    // IPv4 header checksum is wrong
const reason_t DROP_TTL_EXPIRED     = 7;    // TTL was 0 or 1 on arrival
const reason_t DROP_SHORT_WEIR      = 8;    // on Weir's UDP port, but too short for a Weir header
const reason_t DROP_BAD_VERSION     = 9;    // Weir version is not 1
const reason_t DROP_BAD_KIND        = 10;   // Weir kind is above 7
const reason_t DROP_NO_ROUTE        = 11;   // no entry in `forward` or `tree_route`
const reason_t DROP_NO_MEMBER       = 12;   // ECMP group has no such member
const reason_t DROP_SAME_PORT       = 13;   // the route leads out of the ingress port
const reason_t DROP_BAD_PORT        = 14;   // packet-out to the drop port
@noWarn("unused") const reason_t DROP_CREDIT_LIMIT = 15;    // no room for the data that the credit would bring
const reason_t DROP_POLICY_UNICAST  = 16;   // POLICY to another address than the hosts' group
const reason_t DROP_POLICY_TREE     = 17;   // POLICY by a port that is not of the flooding tree
const reason_t DROP_POLICY_LIMIT    = 18;   // POLICY beyond what its ingress port's meter lets through

@noWarn("unused") const event_t EVENT_INT_FULL = 0;         // eight hops were recorded already: nothing pushed
const event_t EVENT_ECN_MARKED = 1;         // CE set
const event_t EVENT_PACKET_IN  = 2;         // link probe given to the controller
const event_t EVENT_PACKET_OUT = 3;         // frame sent for the controller
@noWarn("unused") const event_t EVENT_DEFLECTED     = 4;    // sent by another port than the route's, for a token
@noWarn("unused") const event_t EVENT_DFT_FULL      = 5;    // START was not deflected: no entry was free
@noWarn("unused") const event_t EVENT_DFT_RECLAIMED = 6;    // an entry that had been idle for its lifetime was taken

#define DROP_REASONS 32
#define EVENTS       32

#endif
