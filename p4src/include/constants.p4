// Numbers of the wire, of the tables and of the fixed points. Nothing that an operator tunes stands
// here: what is tunable is a table entry (docs/p4.md).
#ifndef WEIR_CONSTANTS_P4
#define WEIR_CONSTANTS_P4

typedef bit<48> mac_t;
typedef bit<32> ipv4_addr_t;
typedef bit<9>  port_t;

// Ports. The CPU port is what BMv2 is told with --cpu-port 255; 511 is BMv2's --drop-port. Other targets have others.
#ifndef CPU_PORT_NUMBER
#define CPU_PORT_NUMBER 255
#endif
const port_t CPU_PORT  = CPU_PORT_NUMBER;
const port_t DROP_PORT = 511;
#define PORTS 512

// Ethernet: IPv4, and IEEE 802's local experimental ethertype 1 for the controller's link probes.
const bit<16> ETHERTYPE_IPV4  = 0x0800;
const bit<16> ETHERTYPE_PROBE = 0x88B5;
const bit<32> ETHERNET_BYTES  = 14;

// IPv4.
const bit<16> IPV4_BYTES   = 20;
const bit<8>  PROTOCOL_TCP = 6;
const bit<8>  PROTOCOL_UDP = 17;
const bit<8>  TTL_LAST_HOP = 1;          // arrives with this or less: may not be forwarded again
const bit<2>  ECN_NOT_ECT  = 0;          // RFC 3168: 1 and 2 are ECT, 3 is CE
const bit<2>  ECN_CE       = 3;

// Weir header (docs/wire.md).
const bit<16> WEIR_PORT    = 22341;
const bit<4>  WEIR_VERSION = 1;

// Where POLICY packets go: "WEI" in 239/8 (RFC 2365). Its Ethernet address is 01:00:5e:57:45:49 (RFC 1112).
const bit<32> POLICY_GROUP = 0xEF574549;     // 239.87.69.73

// Kinds and flags that a switch looks at; not every program looks at all of them.
@noWarn("unused") const bit<4> KIND_DATA      = 0;
@noWarn("unused") const bit<4> KIND_ACK       = 1;
@noWarn("unused") const bit<4> KIND_NACK      = 2;
@noWarn("unused") const bit<4> KIND_PROBE     = 4;
@noWarn("unused") const bit<4> KIND_PROBE_REPLY = 5;
@noWarn("unused") const bit<4> KIND_RATE      = 6;
const bit<4> KIND_POLICY    = 7;

// True for packets that HPCC's switches write a record into.
#define ASKS_ON_DATA(weir) (((weir).flags & FLAG_TELEMETRY) != 0 \
    && ((weir).kind == KIND_DATA || (weir).kind == KIND_PROBE))
// True for a receiver's answers to DATA, which return by the path of DATA.
#define IS_ANSWER(weir) ((weir).kind == KIND_ACK || (weir).kind == KIND_NACK)
// True for the answers that FNCC's switches write a record into.
#define ASKS_ON_ANSWERS(weir) (IS_ANSWER(weir) && ((weir).flags & FLAG_TELEMETRY) != 0)
@noWarn("unused") const bit<7> FLAG_START      = 0x01;
@noWarn("unused") const bit<7> FLAG_END        = 0x02;
@noWarn("unused") const bit<7> FLAG_TELEMETRY  = 0x04;
@noWarn("unused") const bit<7> FLAG_RETRANSMIT = 0x20;
@noWarn("unused") const bit<7> FLAG_ESCAPE     = 0x40;      // set by the switch that deflects the packet

// INT record: the papers' 64 bits.
@noWarn("unused") const bit<16> RECORD_BYTES = 8;
@noWarn("unused") const bit<16> LINK_BYTES   = 4;          // switch and port in front of a record
@noWarn("unused") const bit<8>  INT_FORMAT_LINK    = 0x01; // the sender wants them
@noWarn("unused") const bit<8>  INT_FORMAT_SOJOURN = 0x02; // the sender wants time, not length, of a queue
@noWarn("unused") const bit<4>  MAX_HOPS     = 8;          // a ninth hop is not recorded

// Rate codes of the 4-bit field in an INT record. One table in three places (here, host/src/wire,
// controller); tests hold them equal.
//   0 unknown   1 1M     2 5M     3 10M    4 20M    5 50M    6 100M   7 1G
//   8 10G       9 25G   10 40G   11 50G   12 100G  13 200G  14 400G  15 800G

// Table sizes. 12,288 prefixes fit Tofino 1 (docs/tofino.md).
#define FORWARD_ENTRIES    12288
#define MEMBER_ENTRIES     16384
#define TREE_ROUTE_ENTRIES 16384
#define DEFLECT_PORT_ENTRIES 4096

#endif
