//! Typed inputs: their schema and how they are read.

use crate::{array, object, Json};

/// A type that a member of an input can have. `input!` makes structs of it.
pub trait Field: Sized {
    /// Whether the member must be there.
    const REQUIRED: bool = true;

    /// The JSON Schema of the type.
    fn schema() -> Json;

    /// Reads a value. The error says what it must be, such as "must be a string".
    fn read(value: Json) -> Result<Self, String>;

    /// The value of a member that is not there.
    fn absent() -> Option<Self> {
        None
    }
}

macro_rules! fields {
    ($($t:ty, $schema:expr, $v:ident => $e:expr, $why:expr;)*) => {
        $(impl Field for $t {
            fn schema() -> Json {
                $schema
            }

            fn read($v: Json) -> Result<Self, String> {
                $e.ok_or_else(|| $why.to_string())
            }
        })*
    };
}

fn whole<T: TryFrom<i64>>(v: &Json) -> Option<T> {
    v.as_i64().and_then(|n| T::try_from(n).ok())
}

fields! {
    bool, object! {"type": "boolean"}, v => v.as_bool(), "must be true or false";
    i32, object! {"type": "integer", "minimum": i32::MIN, "maximum": i32::MAX}, v => whole(&v), "must be a whole number of 32 bits";
    u32, object! {"type": "integer", "minimum": 0, "maximum": u32::MAX}, v => whole(&v), "must be a whole number of 32 bits that is not negative";
    i64, object! {"type": "integer"}, v => whole(&v), "must be a whole number";
    u64, object! {"type": "integer", "minimum": 0}, v => whole(&v), "must be a whole number that is not negative";
    f64, object! {"type": "number"}, v => v.as_f64(), "must be a number";
    Json, object! {}, v => Some(v), "";
}

impl Field for String {
    fn schema() -> Json {
        object! {"type": "string"}
    }

    fn read(v: Json) -> Result<Self, String> {
        match v {
            Json::Str(s) => Ok(s),
            _ => Err("must be a string".to_string()),
        }
    }
}

impl<T: Field> Field for Option<T> {
    const REQUIRED: bool = false;

    fn schema() -> Json {
        T::schema()
    }

    fn read(v: Json) -> Result<Self, String> {
        T::read(v).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: Field> Field for Vec<T> {
    fn schema() -> Json {
        object! {"type": "array", "items": T::schema()}
    }

    fn read(v: Json) -> Result<Self, String> {
        match v {
            Json::Arr(a) => {
                let item = |(i, v)| T::read(v).map_err(|why| format!("element {} {}", i, why));
                a.into_iter().enumerate().map(item).collect()
            }
            _ => Err("must be an array".to_string()),
        }
    }
}

/// A whole number between two bounds, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Within<const MIN: i64, const MAX: i64>(pub i64);

impl<const MIN: i64, const MAX: i64> Field for Within<MIN, MAX> {
    fn schema() -> Json {
        object! {"type": "integer", "minimum": MIN, "maximum": MAX}
    }

    fn read(v: Json) -> Result<Self, String> {
        let n = v.as_i64().filter(|n| (MIN..=MAX).contains(n));
        n.map(Within).ok_or_else(|| format!("must be a whole number from {} to {}", MIN, MAX))
    }
}

/// Reads the members of an object one by one. It is for `input!`.
pub struct Members(Json);

impl Members {
    pub fn new(v: Json) -> Result<Members, String> {
        match v {
            Json::Obj(_) => Ok(Members(v)),
            _ => Err("must be an object".to_string()),
        }
    }

    pub fn take<T: Field>(&mut self, name: &str) -> Result<T, String> {
        match self.0.take(name) {
            Some(v) => T::read(v).map_err(|why| about(name, &why)),
            None => T::absent().ok_or_else(|| about(name, "is missing")),
        }
    }
}

#[inline(never)]
fn about(name: &str, why: &str) -> String {
    [name, ": ", why].concat()
}

/// Adds a member to the schema of an object. It is for `input!`.
pub fn member<T: Field>(schema: &mut Json, name: &str, doc: &[&str]) {
    add_member(schema, name, doc, T::schema(), T::REQUIRED)
}

#[inline(never)]
fn add_member(schema: &mut Json, name: &str, doc: &[&str], mut s: Json, required: bool) {
    let doc = doc.iter().map(|d| d.trim_matches(' ')).collect::<Vec<_>>().join(" ");
    if !doc.is_empty() {
        s.set("description", doc);
    }
    if let Json::Obj(m) = schema {
        for (k, v) in m.iter_mut() {
            match v {
                Json::Obj(_) if k == "properties" => v.set(name, s.clone()),
                Json::Arr(a) if k == "required" && required => a.push(name.into()),
                _ => {}
            }
        }
    }
}

/// The schema of an object without members. It is for `input!`.
pub fn no_members() -> Json {
    object! {"type": "object", "properties": object! {}, "required": array![], "additionalProperties": false}
}

/// Makes a struct with a schema: its comments are the descriptions that the model
/// reads. Members are `String`, `bool`, numbers, [`Within`], [`Json`], `Vec` and
/// `Option` of these, and structs made in the same way. A member that is called
/// like a word of Rust is written `r#type`.
///
/// ```
/// blade::input! {
///     struct GreetIn {
///         /// Who to greet.
///         name: String,
///         loud: Option<bool>,
///     }
/// }
/// ```
#[macro_export]
macro_rules! input {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($(#[doc = $doc:expr])* $fvis:vis $field:ident : $ty:ty),* $(,)? }) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[doc = $doc])* $fvis $field: $ty,)*
        }

        impl $crate::Field for $name {
            #[allow(unused_mut)]
            fn schema() -> $crate::Json {
                let mut s = $crate::private::no_members();
                $($crate::private::member::<$ty>(&mut s, stringify!($field).trim_start_matches("r#"), &[$($doc),*]);)*
                s
            }

            #[allow(unused_mut, unused_variables)]
            fn read(value: $crate::Json) -> ::std::result::Result<Self, ::std::string::String> {
                let mut m = $crate::private::Members::new(value)?;
                ::std::result::Result::Ok($name {
                    $($field: m.take(stringify!($field).trim_start_matches("r#"))?,)*
                })
            }
        }
    };
}
