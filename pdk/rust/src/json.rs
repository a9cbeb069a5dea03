//! JSON, small: a value, a strict reader and a compact writer.

use std::fmt;

/// How deep a text may be nested, as in abi/SPEC.md.
const MAX_DEPTH: usize = 128;

/// A JSON value. Members of objects keep their order. A whole number that fits is
/// an `Int`, any other number a `Float`, which is exact to 17 digits.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(String),
    Arr(Vec<Json>),
    Obj(Vec<(String, Json)>),
}

/// Why a text is no JSON, and at which byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    pub at: usize,
    pub why: &'static str,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.why, self.at)
    }
}

impl std::error::Error for ParseError {}

impl Json {
    /// Reads one value with nothing but white space around it.
    pub fn parse(text: &[u8]) -> Result<Json, ParseError> {
        let text = std::str::from_utf8(text).map_err(|e| ParseError { at: e.valid_up_to(), why: "the text is not UTF-8" })?;
        let mut r = Reader { s: text, b: text.as_bytes(), at: 0 };
        let v = r.value(0)?;
        r.space();
        if r.at < r.b.len() {
            return Err(r.fail("there is something behind the value"));
        }
        Ok(v)
    }

    /// The member of an object, or None.
    #[inline(never)]
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Obj(m) => m.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// Takes the member out of an object.
    #[inline(never)]
    pub fn take(&mut self, key: &str) -> Option<Json> {
        match self {
            Json::Obj(m) => m.iter().position(|(k, _)| k == key).map(|i| m.remove(i).1),
            _ => None,
        }
    }

    /// Sets a member. A value that is no object becomes one.
    pub fn set(&mut self, key: &str, value: impl Into<Json>) {
        self.put(key, value.into())
    }

    #[inline(never)]
    fn put(&mut self, key: &str, value: Json) {
        if !matches!(self, Json::Obj(_)) {
            *self = Json::Obj(Vec::new());
        }
        if let Json::Obj(m) = self {
            match m.iter_mut().find(|(k, _)| k == key) {
                Some((_, v)) => *v = value,
                None => m.push((key.to_string(), value)),
            }
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::Str(s) => Some(s),
            _ => None,
        }
    }

    /// A whole number; 5.0 is one too.
    pub fn as_i64(&self) -> Option<i64> {
        match *self {
            Json::Int(n) => Some(n),
            Json::Float(f) if f.fract() == 0.0 && f.abs() < 9.2e18 => Some(f as i64),
            _ => None,
        }
    }

    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Json::Int(n) => Some(n as f64),
            Json::Float(f) => Some(f),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Json::Bool(b) => Some(b),
            _ => None,
        }
    }

    pub fn as_array(&self) -> Option<&[Json]> {
        match self {
            Json::Arr(a) => Some(a),
            _ => None,
        }
    }

    /// Writes the value behind what is in out.
    pub fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(true) => out.push_str("true"),
            Json::Bool(false) => out.push_str("false"),
            Json::Int(n) => write_int(*n, out),
            Json::Float(f) => write_float(*f, out),
            Json::Str(s) => write_str(s, out),
            Json::Arr(a) => {
                out.push('[');
                for (i, v) in a.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    v.write(out);
                }
                out.push(']');
            }
            Json::Obj(m) => {
                out.push('{');
                for (i, (k, v)) in m.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    write_str(k, out);
                    out.push(':');
                    v.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// The text of the value.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = String::new();
        self.write(&mut s);
        f.write_str(&s)
    }
}

fn write_int(n: i64, out: &mut String) {
    let mut d = [0u8; 20];
    let mut i = d.len();
    let mut u = n.unsigned_abs();
    loop {
        i -= 1;
        d[i] = b'0' + (u % 10) as u8;
        u /= 10;
        if u == 0 {
            break;
        }
    }
    if n < 0 {
        out.push('-');
    }
    out.extend(d[i..].iter().map(|&c| c as char));
}

/// JSON has no infinity: it becomes null. Large and small numbers get an exponent,
/// as a number may have 40 characters.
fn write_float(f: f64, out: &mut String) {
    let a = f.abs();
    if !f.is_finite() {
        out.push_str("null");
    } else if a != 0.0 && !(1e-5..1e16).contains(&a) {
        out.push_str(&format!("{:e}", f));
    } else {
        out.push_str(&format!("{}", f));
    }
}

fn write_str(s: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.reserve(s.len() + 2);
    out.push('"');
    let mut from = 0;
    for (i, c) in s.bytes().enumerate() {
        if c >= 0x20 && c != b'"' && c != b'\\' {
            continue;
        }
        out.push_str(&s[from..i]);
        from = i + 1;
        out.push('\\');
        match c {
            b'\n' => out.push('n'),
            b'\r' => out.push('r'),
            b'\t' => out.push('t'),
            b'"' | b'\\' => out.push(c as char),
            _ => {
                out.push_str("u00");
                out.push(HEX[(c >> 4) as usize] as char);
                out.push(HEX[(c & 15) as usize] as char);
            }
        }
    }
    out.push_str(&s[from..]);
    out.push('"');
}

struct Reader<'a> {
    s: &'a str,
    b: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn fail(&self, why: &'static str) -> ParseError {
        ParseError { at: self.at, why }
    }

    fn peek(&self) -> u8 {
        self.b.get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str, v: Json) -> Result<Json, ParseError> {
        if !self.s[self.at..].starts_with(word) {
            return Err(self.fail("a value is expected"));
        }
        self.at += word.len();
        Ok(v)
    }

    fn value(&mut self, depth: usize) -> Result<Json, ParseError> {
        self.space();
        match self.peek() {
            b'n' => self.word("null", Json::Null),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'"' => Ok(Json::Str(self.string()?)),
            b'[' | b'{' if depth >= MAX_DEPTH => Err(self.fail("it is nested too deeply")),
            b'[' => self.array(depth + 1),
            b'{' => self.object(depth + 1),
            b'-' | b'0'..=b'9' => self.number(),
            _ => Err(self.fail("a value is expected")),
        }
    }

    /// Says whether the list goes on behind a value.
    fn more(&mut self, close: u8) -> Result<bool, ParseError> {
        self.space();
        let c = self.peek();
        if c != b',' && c != close {
            return Err(self.fail("a comma or the end of the list is expected"));
        }
        self.at += 1;
        Ok(c == b',')
    }

    fn empty(&mut self, close: u8) -> bool {
        self.at += 1;
        self.space();
        let end = self.peek() == close;
        if end {
            self.at += 1;
        }
        end
    }

    fn array(&mut self, depth: usize) -> Result<Json, ParseError> {
        let mut a = Vec::new();
        if self.empty(b']') {
            return Ok(Json::Arr(a));
        }
        loop {
            a.push(self.value(depth)?);
            if !self.more(b']')? {
                return Ok(Json::Arr(a));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, ParseError> {
        let mut m = Vec::new();
        if self.empty(b'}') {
            return Ok(Json::Obj(m));
        }
        loop {
            self.space();
            if self.peek() != b'"' {
                return Err(self.fail("a member's name is expected"));
            }
            let key = self.string()?;
            self.space();
            if self.peek() != b':' {
                return Err(self.fail("a colon is expected"));
            }
            self.at += 1;
            m.push((key, self.value(depth)?));
            if !self.more(b'}')? {
                return Ok(Json::Obj(m));
            }
        }
    }

    fn digits(&mut self) -> Result<(), ParseError> {
        let from = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        if self.at == from {
            return Err(self.fail("a digit is expected"));
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Json, ParseError> {
        let from = self.at;
        if self.peek() == b'-' {
            self.at += 1;
        }
        if self.peek() == b'0' {
            self.at += 1;
        } else {
            self.digits()?;
        }
        let mut whole = true;
        if self.peek() == b'.' {
            whole = false;
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            whole = false;
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        let text = &self.s[from..self.at];
        if whole && text != "-0" {
            if let Ok(n) = text.parse() {
                return Ok(Json::Int(n));
            }
        }
        match text.parse::<f64>() {
            Ok(f) if f.is_finite() => Ok(Json::Float(f)),
            _ => Err(self.fail("the number is too large")),
        }
    }

    fn string(&mut self) -> Result<String, ParseError> {
        self.at += 1;
        let mut out = String::new();
        let mut from = self.at;
        loop {
            match self.b.get(self.at) {
                None => return Err(self.fail("the text ends inside a string")),
                Some(b'"') => {
                    out.push_str(&self.s[from..self.at]);
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    out.push_str(&self.s[from..self.at]);
                    self.at += 1;
                    out.push(self.escape()?);
                    from = self.at;
                }
                Some(0..=0x1f) => return Err(self.fail("a control character stands in a string")),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<char, ParseError> {
        let c = self.peek();
        self.at += 1;
        Ok(match c {
            b'n' => '\n',
            b't' => '\t',
            b'r' => '\r',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'"' | b'\\' | b'/' => c as char,
            b'u' => {
                let mut u = self.hex()?;
                if (0xd800..0xdc00).contains(&u) && self.s[self.at..].starts_with("\\u") {
                    self.at += 2;
                    let low = self.hex()?;
                    if !(0xdc00..0xe000).contains(&low) {
                        return Err(self.fail("half of a surrogate pair"));
                    }
                    u = 0x10000 + ((u - 0xd800) << 10) + (low - 0xdc00);
                }
                char::from_u32(u).ok_or_else(|| self.fail("half of a surrogate pair"))?
            }
            _ => return Err(self.fail("an unknown escape")),
        })
    }

    fn hex(&mut self) -> Result<u32, ParseError> {
        let digits = self.b.get(self.at..self.at + 4).filter(|d| d.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.ok_or_else(|| self.fail("four hexadecimal digits are expected"))?;
        self.at += 4;
        Ok(digits.iter().fold(0, |u, &d| u << 4 | (d as char).to_digit(16).unwrap_or(0)))
    }
}

macro_rules! from {
    ($($t:ty, $v:ident => $e:expr;)*) => {
        $(impl From<$t> for Json {
            #[inline(never)]
            fn from($v: $t) -> Json {
                $e
            }
        })*
    };
}

from! {
    bool, v => Json::Bool(v);
    i32, v => Json::Int(v.into());
    u32, v => Json::Int(v.into());
    i64, v => Json::Int(v);
    u64, v => i64::try_from(v).map_or(Json::Float(v as f64), Json::Int);
    usize, v => Json::from(v as u64);
    f64, v => Json::Float(v);
    &str, v => Json::Str(v.to_string());
    String, v => Json::Str(v);
    (), _v => Json::Null;
}

impl<T: Into<Json>> From<Vec<T>> for Json {
    fn from(v: Vec<T>) -> Json {
        Json::Arr(v.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(v: Option<T>) -> Json {
        v.map_or(Json::Null, Into::into)
    }
}

/// Makes an object: `object! {"a": 1, "b": array!["x", true]}`.
#[macro_export]
macro_rules! object {
    ($($k:tt : $v:expr),* $(,)?) => {
        $crate::private::members_of(&mut [$(($k, $crate::Json::from($v))),*].into_iter())
    };
}

/// Makes an object. It is for `object!`, and takes its list as a reference to
/// something so that it is compiled once.
#[inline(never)]
pub fn members_of(list: &mut dyn Iterator<Item = (&'static str, Json)>) -> Json {
    Json::Obj(list.map(|(k, v)| (k.to_string(), v)).collect())
}

/// Makes an array of any values.
#[macro_export]
macro_rules! array {
    ($($v:expr),* $(,)?) => { $crate::Json::Arr(vec![$($crate::Json::from($v)),*]) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        for s in [
            r#"null"#, r#"[1,-2,3.5,1e300,true,false,null,"x"]"#, r#"{"a":{"b":[]},"c":{}}"#,
            r#""\"\\/\b\f\n\r\t\u0000é😀""#, "9223372036854775807", "-9223372036854775808",
        ] {
            let v = Json::parse(s.as_bytes()).unwrap();
            assert_eq!(v, Json::parse(v.to_string().as_bytes()).unwrap(), "{}", s);
        }
        assert_eq!(Json::parse(br#""\ud83d\ude00\u00e9""#).unwrap(), Json::Str("😀é".into()));
        assert_eq!(object! {"a": 1, "b": array!["x", true, ()]}.to_string(), r#"{"a":1,"b":["x",true,null]}"#);
        assert_eq!(Json::Float(1e300).to_string(), "1e300");
        assert_eq!(Json::Float(f64::NAN).to_string(), "null");
    }

    #[test]
    fn refused() {
        for s in [
            "", " ", "nul", "[1,]", "[1", "{\"a\"}", "{\"a\":}", "{a:1}", "01", "1.", "1e", "-", "+1", "\"", "\"\\x\"", "\"\\u12\"", "\"\\ud800\"",
            "\"\\ud800\\u0041\"", "\"\\udc00\"", "1 2", "\"\n\"", "1e400", "\u{feff}1",
        ] {
            assert!(Json::parse(s.as_bytes()).is_err(), "{:?}", s);
        }
        assert!(Json::parse(b"\"\xff\"").is_err());
        let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(Json::parse(nested(128).as_bytes()).is_ok());
        assert!(Json::parse(nested(129).as_bytes()).is_err());
    }
}
