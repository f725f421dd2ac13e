//! What can be written to the wire and read from it: types of core and store, and what is made of them.
//!
//! Core and store say how a fact or a summary is stored, and little else. [`Carried`] is the form of the rest on this wire. As a module
//! it can be named in `#[serde(with = "carried")]`.

use std::collections::BTreeMap;

use lastword_store::Error;
use serde::ser::SerializeSeq;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value with a form on the wire.
pub(crate) trait Carried: Sized {
    /// Writes it.
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error>;

    /// Reads it.
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error>;
}

/// Writes a field.
pub(crate) fn serialize<T: Carried, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    value.write(to)
}

/// Reads a field.
pub(crate) fn deserialize<'de, T: Carried, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    T::read(from)
}

/// A value to be written, as serde takes it.
pub(crate) struct Out<'a, T>(pub(crate) &'a T);

impl<T: Carried> Serialize for Out<'_, T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.write(to)
    }
}

/// A value that was read, as serde gives it.
pub(crate) struct In<T>(pub(crate) T);

impl<'de, T: Carried> Deserialize<'de> for In<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<In<T>, D::Error> {
        T::read(from).map(In)
    }
}

/// Types whose form is their own serde form.
macro_rules! as_they_are {
    ($($type:ty),* $(,)?) => {
        $(impl Carried for $type {
            fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                Serialize::serialize(self, to)
            }

            fn read<'de, D: Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                Deserialize::deserialize(from)
            }
        })*
    };
}
pub(crate) use as_they_are;

/// Types whose form is that of a definition with `#[serde(remote)]`: `Row as RowForm`.
macro_rules! as_defined {
    ($($type:ty as $form:ty),* $(,)?) => {
        $(impl Carried for $type {
            fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                <$form>::serialize(self, to)
            }

            fn read<'de, D: Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                <$form>::deserialize(from)
            }
        })*
    };
}
pub(crate) use as_defined;

as_they_are!((), bool, u32, u64, String, BTreeMap<String, String>);

impl<T: Carried> Carried for Vec<T> {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut items = to.serialize_seq(Some(self.len()))?;
        for item in self {
            items.serialize_element(&Out(item))?;
        }
        items.end()
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
        Ok(Vec::<In<T>>::deserialize(from)?.into_iter().map(|In(item)| item).collect())
    }
}

impl<T: Carried> Carried for Option<T> {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.as_ref().map(Out).serialize(to)
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
        Ok(Option::<In<T>>::deserialize(from)?.map(|In(value)| value))
    }
}

impl<A: Carried, B: Carried> Carried for (A, B) {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (Out(&self.0), Out(&self.1)).serialize(to)
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<(A, B), D::Error> {
        let (In(one), In(other)) = Deserialize::deserialize(from)?;
        Ok((one, other))
    }
}

/// `{"ok": …}` or `{"error": …}`.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply<T, E> {
    Ok(T),
    Error(E),
}

impl<T: Carried> Carried for Result<T, Error> {
    fn write<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Ok(value) => Reply::Ok(Out(value)),
            Err(error) => Reply::Error(Out(error)),
        }
        .serialize(to)
    }

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Result<T, Error>, D::Error> {
        Ok(match Reply::<In<T>, In<Error>>::deserialize(from)? {
            Reply::Ok(In(value)) => Ok(value),
            Reply::Error(In(error)) => Err(error),
        })
    }
}
