//! Typed access to the fields of a test's event.

use std::collections::BTreeMap;

use strict_yaml::check::did_you_mean;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub(super) struct FieldError {
    pub(super) field: String,
    message: String,
}

pub(super) fn invalid(field: &str, message: impl Into<String>) -> FieldError {
    FieldError {
        field: field.to_owned(),
        message: message.into(),
    }
}

/// The fields of one event. Each field is taken once; remaining fields are unknown.
pub(super) struct EventFields<'a> {
    fields: BTreeMap<&'a str, &'a str>,
    known: Vec<&'static str>,
}

impl<'a> EventFields<'a> {
    pub(super) fn new(fields: &'a BTreeMap<String, String>) -> Self {
        let fields = fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        Self {
            fields,
            known: Vec::new(),
        }
    }

    pub(super) fn text(&mut self, name: &'static str) -> Option<&'a str> {
        self.known.push(name);
        self.fields.remove(name)
    }

    pub(super) fn parsed<T: std::str::FromStr>(
        &mut self,
        name: &'static str,
        what: &str,
    ) -> Result<Option<T>, FieldError> {
        self.text(name)
            .map(|text| {
                text.trim()
                    .parse()
                    .map_err(|_| invalid(name, format!("`{text}` is not {what}")))
            })
            .transpose()
    }

    pub(super) fn number(&mut self, name: &'static str) -> Result<Option<u32>, FieldError> {
        self.parsed(name, "a 32-bit integer")
    }

    pub(super) fn bytes(&mut self, name: &'static str) -> Result<Option<u64>, FieldError> {
        self.parsed(name, "an integer number of bytes")
    }

    pub(super) fn boolean(&mut self, name: &'static str) -> Result<Option<bool>, FieldError> {
        self.parsed(name, "true or false")
    }

    /// Returns a duration in nanoseconds from its field in ns or, if this field is not set, in ms.
    pub(super) fn ns(&mut self, ms: &'static str, ns: &'static str) -> Result<Option<i64>, FieldError> {
        if let Some(whole) = self.parsed::<i64>(ns, "an integer number of nanoseconds")? {
            return Ok(Some(whole));
        }
        let number: Option<f64> = self.parsed(ms, "a number of milliseconds")?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "it saturates, and a test's durations are short"
        )]
        Ok(number.map(|ms| (ms * 1e6).round() as i64))
    }

    pub(super) fn rest(self) -> Result<(), FieldError> {
        let Some(field) = self.fields.keys().next() else {
            return Ok(());
        };
        let hint = did_you_mean(field, self.known.iter().copied());
        let hint = hint.unwrap_or_else(|| format!("known fields: {}", self.known.join(", ")));
        Err(invalid(field, format!("unknown field; {hint}")))
    }
}
