// The first include of every program here: chooses TNA, and the ports of the CPU and of recirculation. A switch with other
// ports is told by -DCPU_PORT_NUMBER=320 -DRECIRCULATION_PORT=196.
#ifndef WEIR_TOFINO_P4
#define WEIR_TOFINO_P4

#define WEIR_TARGET "../tna/include/target_tna.p4"

#ifndef CPU_PORT_NUMBER
#if __TARGET_TOFINO__ == 1
#define CPU_PORT_NUMBER 192
#else
#define CPU_PORT_NUMBER 0
#endif
#endif

// Of pipe 0.
#ifndef RECIRCULATION_PORT
#if __TARGET_TOFINO__ == 1
#define RECIRCULATION_PORT 68
#else
#define RECIRCULATION_PORT 6
#endif
#endif

#endif
