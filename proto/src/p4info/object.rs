use crate::p4::config::v1 as p4;
use crate::p4::config::v1::Preamble;

/// An object with a preamble, such as a table, an action or an extern instance.
pub trait Object {
    /// Name of the kind in error messages.
    const KIND: &'static str;
    /// Returns the preamble. It is `None` only in objects that [`super::Index`] rejects.
    fn try_preamble(&self) -> Option<&Preamble>;
    /// Returns id and names; empty if there is no preamble.
    fn preamble(&self) -> &Preamble {
        static NONE: Preamble = Preamble {
            id: 0,
            name: String::new(),
            alias: String::new(),
            annotations: Vec::new(),
            doc: None,
            structured_annotations: Vec::new(),
            annotation_locations: Vec::new(),
        };
        self.try_preamble().unwrap_or(&NONE)
    }
}

macro_rules! objects {
    ($($kind:literal $type:ident)*) => {
        $(impl Object for p4::$type {
            const KIND: &'static str = $kind;
            fn try_preamble(&self) -> Option<&Preamble> {
                self.preamble.as_ref()
            }
        })*
    };
}

objects! {
    "table" Table
    "action" Action
    "action profile" ActionProfile
    "counter" Counter
    "direct counter" DirectCounter
    "meter" Meter
    "direct meter" DirectMeter
    "controller header" ControllerPacketMetadata
    "value set" ValueSet
    "register" Register
    "digest" Digest
}

impl p4::Table {
    /// Returns the match field with this name.
    pub fn match_field(&self, name: &str) -> Option<&p4::MatchField> {
        self.match_fields.iter().find(|field| field.name == name)
    }
    /// Returns the match field with this id.
    pub fn match_field_by_id(&self, id: u32) -> Option<&p4::MatchField> {
        self.match_fields.iter().find(|field| field.id == id)
    }
}

impl p4::Action {
    /// Returns the parameter with this name.
    pub fn param(&self, name: &str) -> Option<&p4::action::Param> {
        self.params.iter().find(|param| param.name == name)
    }
    /// Returns the parameter with this id.
    pub fn param_by_id(&self, id: u32) -> Option<&p4::action::Param> {
        self.params.iter().find(|param| param.id == id)
    }
}
