//! The items that a decoder delivers for a stream, stored for comparison.

use nettrace::{Decoder, Ending, Error, Event, Gap, Item, Metadata, Options, Order, Stats, TraceHeader};

/// An event that owns its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnedEvent {
    pub(crate) tag: u32,
    pub(crate) metadata: Metadata,
    pub(crate) timestamp: i64,
    pub(crate) thread: u64,
    pub(crate) capture_thread: u64,
    pub(crate) process: Option<u64>,
    pub(crate) processor: Option<u32>,
    pub(crate) sequence: u32,
    pub(crate) is_sorted: bool,
    pub(crate) activity_id: Option<[u8; 16]>,
    pub(crate) related_activity_id: Option<[u8; 16]>,
    pub(crate) stack: Option<Vec<u8>>,
    pub(crate) payload: Vec<u8>,
}

impl OwnedEvent {
    pub(crate) fn from_event(event: &Event<'_>) -> Self {
        Self {
            tag: event.tag,
            metadata: event.metadata.clone(),
            timestamp: event.timestamp,
            thread: event.thread,
            capture_thread: event.capture_thread,
            process: event.process,
            processor: event.processor,
            sequence: event.sequence,
            is_sorted: event.is_sorted,
            activity_id: event.activity_id,
            related_activity_id: event.related_activity_id,
            stack: event.stack.map(|stack| stack.bytes().to_vec()),
            payload: event.payload.to_vec(),
        }
    }
}

/// An item that owns its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OwnedItem {
    Header(TraceHeader),
    Event(Box<OwnedEvent>),
    Gap(Gap),
    SequencePoint(i64),
}

/// The items, ending and counters of a decoded stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Story {
    pub(crate) items: Vec<OwnedItem>,
    pub(crate) error: Option<Error>,
    pub(crate) ending: Option<Ending>,
    pub(crate) stats: Stats,
}

impl OwnedItem {
    pub(crate) fn event(&self) -> Option<&OwnedEvent> {
        match self {
            Self::Event(event) => Some(event),
            _ => None,
        }
    }
}

impl Story {
    pub(crate) fn events(&self) -> Vec<&OwnedEvent> {
        self.items.iter().filter_map(OwnedItem::event).collect()
    }

    pub(crate) fn gaps(&self) -> Vec<Gap> {
        let gap = |item: &OwnedItem| match item {
            OwnedItem::Gap(gap) => Some(*gap),
            _ => None,
        };
        self.items.iter().filter_map(gap).collect()
    }
}

/// Returns options for every event and its stack, in the given order.
pub(crate) fn everything(order: Order) -> Options {
    Options {
        order,
        stacks: true,
        ..Options::default()
    }
}

/// Takes the available items. Returns the error, if any, and checks that the next call returns this error again.
pub(crate) fn drain(decoder: &mut Decoder, items: &mut Vec<OwnedItem>) -> Option<Error> {
    loop {
        match decoder.next_item() {
            Ok(None) => return None,
            Ok(Some(Item::Header(header))) => items.push(OwnedItem::Header(header.clone())),
            Ok(Some(Item::Event(event))) => items.push(OwnedItem::Event(Box::new(OwnedEvent::from_event(&event)))),
            Ok(Some(Item::Gap(gap))) => items.push(OwnedItem::Gap(gap)),
            Ok(Some(Item::SequencePoint(ticks))) => items.push(OwnedItem::SequencePoint(ticks)),
            Ok(Some(_)) => panic!("an item of a new kind"),
            Err(error) => {
                assert_eq!(decoder.next_item().unwrap_err(), error, "an error is persistent");
                return Some(error);
            }
        }
    }
}

/// Decodes a stream that arrives in chunks of `piece` bytes.
pub(crate) fn story_in_pieces(bytes: &[u8], options: Options, piece: usize) -> Story {
    story_of(Decoder::new(options), bytes, piece)
}

/// Like [`story_in_pieces`], but with an existing decoder that has not read anything.
pub(crate) fn story_of(mut decoder: Decoder, bytes: &[u8], piece: usize) -> Story {
    let mut items = Vec::new();
    let mut error = None;
    for piece in bytes.chunks(piece.max(1)) {
        let space = decoder.space(piece.len());
        space[..piece.len()].copy_from_slice(piece);
        decoder.filled(piece.len());
        error = drain(&mut decoder, &mut items);
        if error.is_some() {
            break;
        }
    }
    if error.is_none() {
        decoder.finish();
        error = drain(&mut decoder, &mut items);
    }
    Story {
        items,
        error,
        ending: decoder.ending(),
        stats: *decoder.stats(),
    }
}

/// Decodes a stream that arrives as a whole.
pub(crate) fn story(bytes: &[u8], options: Options) -> Story {
    story_in_pieces(bytes, options, bytes.len())
}

/// A summary of a decoded stream for comparison, with a hash for each delivered event, in order of delivery.
pub(crate) struct Digest {
    pub(crate) events: Vec<u64>,
    pub(crate) error: Option<Error>,
    pub(crate) ending: Option<Ending>,
}

pub(crate) fn digest(bytes: &[u8], options: Options) -> Digest {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut decoder = Decoder::new(options);
    decoder.push(bytes);
    decoder.finish();
    let mut events = Vec::new();
    let error = loop {
        match decoder.next_item() {
            Ok(None) => break None,
            Ok(Some(Item::Event(event))) => {
                let mut hash = DefaultHasher::new();
                let threads = (event.thread, event.capture_thread, event.sequence);
                (event.timestamp, threads, event.payload, event.metadata.event_id).hash(&mut hash);
                event.stack.map(|stack| stack.bytes()).hash(&mut hash);
                events.push(hash.finish());
            }
            Ok(Some(_)) => {}
            Err(error) => break Some(error),
        }
    };
    Digest {
        events,
        error,
        ending: decoder.ending(),
    }
}
