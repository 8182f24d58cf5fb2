//! The layout of a session in each variant of CollectTracing. Newer variants have more fields.

use super::{EventFilter, MAX_PROVIDERS, Provider, Rundown, SessionConfig, WhenFull};
use crate::message::command::CollectVersion;
use crate::message::error::MessageError;
use crate::message::primitive::{Fields, Payload};

/// Stream format nettrace (0 would be the older NetPerf).
const FORMAT_NETTRACE: u32 = 1;
/// CollectTracing5: session type for a stream over the socket (1 would be user_events).
const SESSION_TYPE_STREAM: u32 = 0;
/// CollectTracing6: mode in which the writer blocks while the buffers are full (0 drops events).
const MODE_BLOCK: u32 = 1;

impl SessionConfig {
    /// Encodes the payload of this variant of the command.
    pub(in crate::message) fn encode(&self, version: CollectVersion) -> Result<Vec<u8>, MessageError> {
        self.check()?;
        let mut payload = Payload::default();
        if version >= CollectVersion::V5 {
            payload.u32(SESSION_TYPE_STREAM);
        }
        payload.u32(self.buffer_mb).u32(FORMAT_NETTRACE);
        match version {
            CollectVersion::V2 => payload.bool(self.rundown.keyword() != 0),
            CollectVersion::V3 => payload.bool(self.rundown.keyword() != 0).bool(self.stacks),
            CollectVersion::V4 | CollectVersion::V5 | CollectVersion::V6 => {
                payload.u64(self.rundown.keyword()).bool(self.stacks)
            }
        };
        payload.count("the number of providers", self.providers.len())?;
        for provider in &self.providers {
            payload.u64(provider.keywords).u32(provider.level);
            payload.string("a provider's name", &provider.name)?;
            payload.string(
                "a provider's arguments",
                provider.arguments.as_deref().unwrap_or_default(),
            )?;
            if version >= CollectVersion::V5 {
                // A disabled filter without ids excludes no id, so it lets every event pass.
                let (enable, ids) = match &provider.filter {
                    None => (false, [].as_slice()),
                    Some(EventFilter::Only(ids)) => (true, ids.as_slice()),
                    Some(EventFilter::Except(ids)) => (false, ids.as_slice()),
                };
                payload
                    .bool(enable)
                    .count("the number of event ids of a provider", ids.len())?;
                for id in ids {
                    payload.u32(*id);
                }
            }
        }
        if version >= CollectVersion::V6 {
            payload.u32(match self.when_full {
                WhenFull::Drop => 0,
                WhenFull::Block => MODE_BLOCK,
            });
        }
        Ok(payload.bytes)
    }

    /// Decodes the payload of this variant of the command. Settings that the variant cannot express have the values
    /// that the runtime assumes.
    pub(in crate::message) fn decode(version: CollectVersion, payload: &[u8]) -> Result<Self, MessageError> {
        let mut fields = Fields::new(payload);
        if version >= CollectVersion::V5 {
            let session_type = fields.u32("the session type")?;
            limited("the session type", session_type, SESSION_TYPE_STREAM)?;
        }
        let buffer_mb = fields.u32("the buffer size")?;
        let format = fields.u32("the stream format")?;
        limited("the stream format", format, FORMAT_NETTRACE)?;
        let rundown = if version >= CollectVersion::V4 {
            Rundown::from_keyword(fields.u64("the rundown keyword")?)
        } else if fields.bool("the rundown flag")? {
            Rundown::Default
        } else {
            Rundown::None
        };
        let stacks = if version >= CollectVersion::V3 {
            fields.bool("the stacks flag")?
        } else {
            true
        };
        let count = fields.u32("the number of providers")?;
        limited("the number of providers", count, MAX_PROVIDERS as u32)?;
        let mut providers = Vec::new();
        for _ in 0..count {
            let keywords = fields.u64("a provider's keywords")?;
            let level = fields.u32("a provider's level")?;
            let name = fields.string("a provider's name")?;
            let arguments = Some(fields.string("a provider's arguments")?).filter(|text| !text.is_empty());
            let mut filter = None;
            if version >= CollectVersion::V5 {
                let enable = fields.bool("a provider's filter flag")?;
                let ids = fields.u32("the number of event ids of a provider")?;
                limited("the number of event ids of a provider", ids, (fields.left() / 4) as u32)?;
                let ids = (0..ids)
                    .map(|_| fields.u32("an event id"))
                    .collect::<Result<Vec<_>, _>>()?;
                filter = match (enable, ids.is_empty()) {
                    (true, _) => Some(EventFilter::Only(ids)),
                    (false, false) => Some(EventFilter::Except(ids)),
                    (false, true) => None,
                };
            }
            providers.push(Provider {
                name,
                keywords,
                level,
                arguments,
                filter,
            });
        }
        let mut when_full = WhenFull::Drop;
        if version >= CollectVersion::V6 {
            let mode = fields.u32("the mode of full buffers")?;
            limited("the mode of full buffers", mode, MODE_BLOCK)?;
            if mode == MODE_BLOCK {
                when_full = WhenFull::Block;
            }
        }
        Ok(Self {
            buffer_mb,
            rundown,
            stacks,
            providers,
            when_full,
            allow_inducing_keywords: true,
        })
    }
}

fn limited(reading: &'static str, value: u32, limit: u32) -> Result<(), MessageError> {
    if value > limit {
        return Err(MessageError::Limit {
            reading,
            value: value.into(),
            limit: limit.into(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the default session is encoded in versions 2, 3, 5 and 6, and compared byte by byte.
    /// Guarantee: the layouts match `ds-eventpipe-protocol.c`.
    #[test]
    fn default_session_has_documented_bytes() {
        let config = SessionConfig {
            providers: vec![Provider::new("P", 0x1, 4)],
            ..SessionConfig::default()
        };
        let provider = [
            [1, 0, 0, 0, 0, 0, 0, 0].as_slice(), // keywords
            &[4, 0, 0, 0],                       // level
            &[2, 0, 0, 0, b'P', 0, 0, 0],        // name
            &[0, 0, 0, 0],                       // no arguments
        ]
        .concat();
        let oldest = [[8, 0, 0, 0, 1, 0, 0, 0, 0].as_slice(), &[1, 0, 0, 0], &provider].concat();
        assert_eq!(config.encode(CollectVersion::V2).unwrap(), oldest);
        let third = [[8, 0, 0, 0, 1, 0, 0, 0, 0, 0].as_slice(), &[1, 0, 0, 0], &provider].concat();
        assert_eq!(config.encode(CollectVersion::V3).unwrap(), third);
        let newest = [
            [0, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0].as_slice(),
            &[0; 9], // rundown keyword, stacks
            &[1, 0, 0, 0],
            &provider,
            &[0, 0, 0, 0, 0], // no filter
        ]
        .concat();
        assert_eq!(config.encode(CollectVersion::V5).unwrap(), newest);
        let drops = [newest.as_slice(), &[0; 4]].concat();
        assert_eq!(config.encode(CollectVersion::V6).unwrap(), drops);
        let blocks = SessionConfig {
            when_full: WhenFull::Block,
            ..config
        };
        let newest = [newest.as_slice(), &[1, 0, 0, 0]].concat();
        assert_eq!(blocks.encode(CollectVersion::V6).unwrap(), newest);
    }
}
