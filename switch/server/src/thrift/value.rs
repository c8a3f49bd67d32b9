//! Thrift values, decoded within limits. A field of a struct has an id (a number) but no name; the caller knows its
//! meaning.

use thrift::protocol::{
    TFieldIdentifier, TInputProtocol, TListIdentifier, TMapIdentifier, TOutputProtocol, TStructIdentifier,
    TType,
};
use thrift::{Error, ProtocolError, ProtocolErrorKind, Result, TConfiguration};

/// Maximum length of a string in a call, in bytes: enough for a program (`bm_load_new_config`).
const MAX_STRING_LEN: usize = 1 << 20;
/// Maximum number of elements of a list in a call: more than any action has arguments.
const MAX_ELEMENTS: usize = 4096;
/// Maximum nesting in a call. BMv2's calls have at most four levels: arguments, match parameters, parameter, its value.
const MAX_DEPTH: usize = 8;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// The result of a call that returns nothing.
    Void,
    Bool(bool),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    Double(f64),
    Binary(Vec<u8>),
    /// The type of the elements, which an empty list must state too, and the elements.
    List(TType, Vec<Value>),
    /// Pairs of key and value. The only maps in BMv2's definitions are from string to string.
    Map(Vec<(String, String)>),
    Struct(Fields),
}

/// The fields of a struct, or the arguments of a call: pairs of field id and value.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Fields(pub Vec<(i16, Value)>);

/// Returns the limits that the protocol itself enforces before it reserves memory.
pub(super) fn limits() -> Result<TConfiguration> {
    TConfiguration::builder()
        .max_string_size(Some(MAX_STRING_LEN))
        .max_container_size(Some(MAX_ELEMENTS))
        .max_recursion_depth(Some(MAX_DEPTH))
        .build()
}

fn protocol_error(kind: ProtocolErrorKind, what: impl Into<String>) -> Error {
    Error::Protocol(ProtocolError::new(kind, what))
}

impl Value {
    pub(super) fn text(text: impl Into<String>) -> Value {
        Value::Binary(text.into().into_bytes())
    }

    pub(super) fn structure(fields: impl IntoIterator<Item = (i16, Value)>) -> Value {
        Value::Struct(Fields(fields.into_iter().collect()))
    }

    /// Reads a value of this type.
    fn read(protocol: &mut dyn TInputProtocol, ty: TType, depth: usize) -> Result<Value> {
        if depth > MAX_DEPTH {
            return Err(protocol_error(ProtocolErrorKind::DepthLimit, "nesting too deep"));
        }
        Ok(match ty {
            TType::Bool => Value::Bool(protocol.read_bool()?),
            TType::I08 => Value::I8(protocol.read_i8()?),
            TType::I16 => Value::I16(protocol.read_i16()?),
            TType::I32 => Value::I32(protocol.read_i32()?),
            TType::I64 => Value::I64(protocol.read_i64()?),
            TType::Double => Value::Double(protocol.read_double()?),
            TType::String => Value::Binary(protocol.read_bytes()?),
            TType::List => {
                let list = protocol.read_list_begin()?;
                // Reserve no capacity for an announced length.
                let mut elements = Vec::new();
                for _ in 0..list.size {
                    elements.push(Value::read(protocol, list.element_type, depth + 1)?);
                }
                protocol.read_list_end()?;
                Value::List(list.element_type, elements)
            }
            TType::Map => {
                let map = protocol.read_map_begin()?;
                if (map.key_type, map.value_type) != (Some(TType::String), Some(TType::String))
                    && map.size > 0
                {
                    return Err(protocol_error(
                        ProtocolErrorKind::NotImplemented,
                        "maps must be from string to string",
                    ));
                }
                let mut pairs = Vec::new();
                for _ in 0..map.size {
                    pairs.push((protocol.read_string()?, protocol.read_string()?));
                }
                protocol.read_map_end()?;
                Value::Map(pairs)
            }
            TType::Struct => Value::Struct(Fields::read(protocol, depth + 1)?),
            other => {
                return Err(protocol_error(
                    ProtocolErrorKind::NotImplemented,
                    format!("values of type {other} are not supported"),
                ));
            }
        })
    }

    fn ty(&self) -> TType {
        match self {
            Value::Void => TType::Void,
            Value::Bool(_) => TType::Bool,
            Value::I8(_) => TType::I08,
            Value::I16(_) => TType::I16,
            Value::I32(_) => TType::I32,
            Value::I64(_) => TType::I64,
            Value::Double(_) => TType::Double,
            Value::Binary(_) => TType::String,
            Value::List(..) => TType::List,
            Value::Map(_) => TType::Map,
            Value::Struct(_) => TType::Struct,
        }
    }

    fn write(&self, protocol: &mut dyn TOutputProtocol) -> Result<()> {
        let to_size = |len: usize| {
            i32::try_from(len).map_err(|_| protocol_error(ProtocolErrorKind::SizeLimit, "a list is too long"))
        };
        match self {
            Value::Void => Ok(()),
            Value::Bool(value) => protocol.write_bool(*value),
            Value::I8(value) => protocol.write_i8(*value),
            Value::I16(value) => protocol.write_i16(*value),
            Value::I32(value) => protocol.write_i32(*value),
            Value::I64(value) => protocol.write_i64(*value),
            Value::Double(value) => protocol.write_double(*value),
            Value::Binary(value) => protocol.write_bytes(value),
            Value::List(ty, elements) => {
                protocol.write_list_begin(&TListIdentifier::new(*ty, to_size(elements.len())?))?;
                elements.iter().try_for_each(|element| element.write(protocol))?;
                protocol.write_list_end()
            }
            Value::Map(pairs) => {
                let (key, value) = (TType::String, TType::String);
                protocol.write_map_begin(&TMapIdentifier::new(key, value, to_size(pairs.len())?))?;
                for (key, value) in pairs {
                    protocol.write_string(key)?;
                    protocol.write_string(value)?;
                }
                protocol.write_map_end()
            }
            Value::Struct(fields) => fields.write(protocol),
        }
    }
}

impl Fields {
    /// Reads a struct at this nesting depth; 0 for the arguments of a call.
    pub(super) fn read(protocol: &mut dyn TInputProtocol, depth: usize) -> Result<Fields> {
        let mut fields = Vec::new();
        protocol.read_struct_begin()?;
        loop {
            let field = protocol.read_field_begin()?;
            if field.field_type == TType::Stop {
                break;
            }
            if fields.len() == MAX_ELEMENTS {
                return Err(protocol_error(ProtocolErrorKind::SizeLimit, "a struct has too many fields"));
            }
            let value = Value::read(protocol, field.field_type, depth)?;
            fields.push((field.id.unwrap_or_default(), value));
            protocol.read_field_end()?;
        }
        protocol.read_struct_end()?;
        Ok(Fields(fields))
    }

    pub(super) fn write(&self, protocol: &mut dyn TOutputProtocol) -> Result<()> {
        // Names of structs and fields are not transmitted.
        protocol.write_struct_begin(&TStructIdentifier::new(""))?;
        for (id, value) in &self.0 {
            // An absent optional field, or the result of a call that returns nothing, is not written.
            if *value != Value::Void {
                protocol.write_field_begin(&TFieldIdentifier::new("", value.ty(), *id))?;
                value.write(protocol)?;
                protocol.write_field_end()?;
            }
        }
        protocol.write_field_stop()?;
        protocol.write_struct_end()
    }

    /// Returns the field with this id, if present.
    pub(super) fn get(&self, id: i16) -> Option<&Value> {
        self.0.iter().find(|(field, _)| *field == id).map(|(_, value)| value)
    }
}

/// Declares the accessors of fields: the variant that the value must have, and the result.
macro_rules! fields {
    ($($name:ident -> $type:ty: $pattern:pat => $value:expr;)+) => {
        impl Fields {
            $(pub(crate) fn $name(&self, id: i16) -> Result<$type> {
                match self.get(id) {
                    Some($pattern) => Ok($value),
                    Some(other) => Err(protocol_error(
                        ProtocolErrorKind::InvalidData,
                        format!("field {id} has type {}, expected {}", other.ty(), stringify!($name)),
                    )),
                    None => Err(protocol_error(ProtocolErrorKind::InvalidData, format!("field {id} is missing"))),
                }
            })+
        }
    };
}

fields! {
    bool -> bool: Value::Bool(value) => *value;
    i16 -> i16: Value::I16(value) => *value;
    i32 -> i32: Value::I32(value) => *value;
    i64 -> i64: Value::I64(value) => *value;
    double -> f64: Value::Double(value) => *value;
    binary -> Vec<u8>: Value::Binary(value) => value.clone();
    list -> &[Value]: Value::List(_, elements) => elements;
    fields -> &Fields: Value::Struct(fields) => fields;
}

impl Fields {
    /// Returns a string field as UTF-8.
    pub(super) fn text(&self, id: i16) -> Result<String> {
        String::from_utf8(self.binary(id)?)
            .map_err(|_| protocol_error(ProtocolErrorKind::InvalidData, format!("field {id} is not UTF-8")))
    }

    /// Returns a list of structs.
    pub(super) fn structs(&self, id: i16) -> Result<Vec<&Fields>> {
        let what = || format!("field {id} is not a list of structs");
        let elements = self.list(id)?.iter().map(|value| match value {
            Value::Struct(fields) => Ok(fields),
            _ => Err(protocol_error(ProtocolErrorKind::InvalidData, what())),
        });
        elements.collect()
    }

    /// Returns a list of byte strings.
    pub(super) fn binaries(&self, id: i16) -> Result<Vec<Vec<u8>>> {
        let element = |value: &Value| match value {
            Value::Binary(bytes) => Ok(bytes.clone()),
            _ => Err(protocol_error(
                ProtocolErrorKind::InvalidData,
                format!("field {id} is not a list of strings"),
            )),
        };
        self.list(id)?.iter().map(element).collect()
    }
}
