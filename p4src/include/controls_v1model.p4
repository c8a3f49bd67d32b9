// Parser, deparser and the controls that differ on other targets (../tna/include/controls_tna.p4), where they have the same
// names, parameters and contracts.
#ifndef WEIR_CONTROLS_V1MODEL_P4
#define WEIR_CONTROLS_V1MODEL_P4

#include "parser.p4"
#include "../controls/member_index.p4"
#include "../controls/queue_bytes.p4"
#include "../controls/port_profile.p4"
#include "../controls/ecn.p4"
#include "../controls/switch_identity.p4"
#ifdef WEIR_DEFLECTS
#include "../controls/deflect.p4"
#endif

#endif
