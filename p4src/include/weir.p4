// What every program is made of. A program adds its egress and whatever control only it uses.
#ifndef WEIR_P4
#define WEIR_P4

#include "constants.p4"
#ifndef WEIR_TARGET
#define WEIR_TARGET "target_v1model.p4"
#endif
#include WEIR_TARGET
#include "reasons.p4"
#include "headers.p4"
#include "../controls/drops.p4"
#include TARGET_CONTROLS
#include "../controls/admission.p4"
#include "../controls/path_hash.p4"
#include "../controls/forwarding.p4"
#include "../controls/policy_flood.p4"
#include "../controls/classes.p4"
#include "../controls/packet_io.p4"
#ifdef PROGRAM_CONTROLS
#include PROGRAM_CONTROLS            // of its ingress
#endif
#include "ingress.p4"

#endif
