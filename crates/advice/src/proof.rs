//! Kinds of advice, the proofs that admit a kind, and the hit rates that switch a kind off.

use std::collections::BTreeMap;

use base::words;
use serde::{Deserialize, Serialize};

words! {
    /// A kind of advice.
    #[derive(PartialOrd, Ord)]
    pub enum Kind {
        /// A higher memory limit.
        LimitRaise = "limit_raise",
        /// A lower memory limit.
        LimitLower = "limit_lower",
        /// Another collector. Only server GC without DATAS is predicted.
        Collector = "collector",
        /// The budget of generation 0.
        Gen0Size = "gen0_size",
        /// The threshold of large objects, which is always refused in favour of pooling.
        LargeObjects = "large_objects",
        /// Less free space between old objects at the price of more CPU.
        ConserveMemory = "conserve_memory",
    }
}

words! {
    /// The outcome of advice that was followed.
    pub enum Verdict {
        /// Every expected measure with a known value after the change is in its range: stopped share, median pause,
        /// memory and CPU.
        Kept = "kept",
        /// One or more measures are outside their ranges.
        Failed = "failed",
        /// The load changed or is unknown, so that the measures cannot be compared.
        LoadChanged = "load_changed",
    }
}

impl Kind {
    /// Returns the name for display.
    pub const fn title(self) -> &'static str {
        match self {
            Self::LimitRaise => "higher memory limit",
            Self::LimitLower => "lower memory limit",
            Self::Collector => "other collector",
            Self::Gen0Size => "budget of generation 0",
            Self::LargeObjects => "large objects",
            Self::ConserveMemory => "conserve memory",
        }
    }
}

/// Results of the blind predictions of a kind. A blind prediction is recorded before the run that checks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// Kind of advice.
    pub kind: Kind,
    /// Number of predictions.
    pub predictions: u32,
    /// Number of predictions whose measures were all in their ranges.
    pub hits: u32,
    /// Number of predictions that ended the process, or with a measure that was worse than its range.
    pub harmful: u32,
}

/// Minimum number of predictions in a sufficient proof.
pub const MIN_PREDICTIONS: u32 = 40;
/// Minimum share of hits among the predictions of a proof, in percent. The same minimum applies to verdicts on a node.
pub const MIN_HITS_PERCENT: u32 = 80;
/// Maximum share of harmful predictions in a sufficient proof, in percent.
pub const MAX_HARMFUL_PERCENT: u32 = 5;

/// Proofs of admitted kinds, from the results of `tests/advice/run`. A kind without a sufficient proof is refused. No
/// kind has a proof in this version.
pub const ADMITTED: &[Proof] = &[];

impl Proof {
    /// Returns whether the proof admits its kind.
    pub const fn is_sufficient(&self) -> bool {
        self.predictions >= MIN_PREDICTIONS
            && self.hits * 100 >= self.predictions * MIN_HITS_PERCENT
            && self.harmful * 100 <= self.predictions * MAX_HARMFUL_PERCENT
    }
}

/// Returns the reason why a kind is not admitted, or `None` if the kind is admitted.
pub fn not_admitted(proofs: &[Proof], kind: Kind) -> Option<String> {
    let found = proofs.iter().find(|proof| proof.kind == kind);
    let Some(proof) = found else {
        return Some(format!(
            "this kind of advice has no proof yet: it needs {MIN_PREDICTIONS} blind predictions on real runtimes, of \
             which {MIN_HITS_PERCENT} % fall into their ranges"
        ));
    };
    (!proof.is_sufficient()).then(|| {
        format!(
            "the proof of this kind of advice does not suffice: {} of {} blind predictions fell into their ranges, and \
             {} did harm beyond them",
            proof.hits, proof.predictions, proof.harmful
        )
    })
}

/// Minimum number of decided verdicts after which a low hit rate switches a kind off.
pub const MIN_VERDICTS: u32 = 10;

/// Numbers of verdicts on one kind of advice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Number of verdicts [`Verdict::Kept`].
    pub kept: u32,
    /// Number of verdicts [`Verdict::Failed`].
    pub failed: u32,
    /// Number of verdicts [`Verdict::LoadChanged`].
    pub load_changed: u32,
}

impl Tally {
    /// Returns the number of verdicts that decide about the kind. A changed load does not decide.
    pub const fn decided(&self) -> u32 {
        self.kept.saturating_add(self.failed)
    }
}

/// Numbers of verdicts by kind of advice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HitRates(BTreeMap<Kind, Tally>);

impl HitRates {
    /// Counts a verdict.
    pub fn add(&mut self, kind: Kind, verdict: Verdict) {
        let tally = self.0.entry(kind).or_default();
        let count = match verdict {
            Verdict::Kept => &mut tally.kept,
            Verdict::Failed => &mut tally.failed,
            Verdict::LoadChanged => &mut tally.load_changed,
        };
        *count = count.saturating_add(1);
    }

    /// Returns the numbers of verdicts on a kind.
    pub fn tally(&self, kind: Kind) -> Tally {
        self.0.get(&kind).copied().unwrap_or_default()
    }

    /// Returns the reason why a kind is switched off, or `None` if the kind is not switched off.
    pub fn switched_off(&self, kind: Kind) -> Option<String> {
        let tally = self.tally(kind);
        let is_off = tally.decided() >= MIN_VERDICTS
            && u64::from(tally.kept) * 100 < u64::from(tally.decided()) * u64::from(MIN_HITS_PERCENT);
        is_off.then(|| {
            format!(
                "this kind of advice is switched off on this node: {} of {} verdicts were kept, and {MIN_HITS_PERCENT} \
                 % are needed",
                tally.kept,
                tally.decided()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof(predictions: u32, hits: u32, harmful: u32) -> Proof {
        Proof {
            kind: Kind::Gen0Size,
            predictions,
            hits,
            harmful,
        }
    }

    /// Scenario: a proof is exactly at every bound; three other proofs violate one bound each; another kind has no
    /// proof.
    /// Guarantee: only the proof with 40 predictions, 80 % hits and 5 % harm is sufficient, and only its kind is
    /// admitted.
    #[test]
    fn proof_needs_every_bound() {
        assert!(proof(40, 32, 2).is_sufficient());
        for (predictions, hits, harmful) in [(39, 39, 0), (40, 31, 0), (40, 40, 3)] {
            let proof = proof(predictions, hits, harmful);
            assert!(!proof.is_sufficient(), "{proof:?}");
            assert!(
                not_admitted(&[proof], Kind::Gen0Size)
                    .unwrap()
                    .contains("does not suffice")
            );
        }
        assert_eq!(not_admitted(&[proof(40, 32, 2)], Kind::Gen0Size), None);
        assert!(
            not_admitted(&[proof(40, 32, 2)], Kind::Collector)
                .unwrap()
                .contains("no proof")
        );
    }

    /// Scenario: the table of proofs of this version is read.
    /// Guarantee: every listed proof is sufficient, and no kind is listed twice.
    #[test]
    fn listed_proofs_suffice() {
        let kinds: std::collections::BTreeSet<Kind> = ADMITTED.iter().map(|proof| proof.kind).collect();
        assert_eq!(kinds.len(), ADMITTED.len());
        assert!(ADMITTED.iter().all(Proof::is_sufficient));
    }

    /// Scenario: a kind has six kept, three failed and nine `load_changed` verdicts; then one more is kept, and then
    /// five more.
    /// Guarantee: the kind is switched off only after the tenth decided verdict, with 7 of 10, and is switched on again
    /// with 12 of 15; another kind is not switched off.
    #[test]
    fn kind_below_its_bound_switches_itself_off() {
        let mut rates = HitRates::default();
        for verdict in [Verdict::Kept; 6] {
            rates.add(Kind::Gen0Size, verdict);
        }
        for verdict in [Verdict::Failed; 3] {
            rates.add(Kind::Gen0Size, verdict);
        }
        for verdict in [Verdict::LoadChanged; 9] {
            rates.add(Kind::Gen0Size, verdict);
        }
        assert_eq!(rates.switched_off(Kind::Gen0Size), None);
        rates.add(Kind::Gen0Size, Verdict::Kept);
        assert!(rates.switched_off(Kind::Gen0Size).unwrap().contains("7 of 10"));
        for _ in 0..5 {
            rates.add(Kind::Gen0Size, Verdict::Kept);
        }
        assert_eq!(rates.switched_off(Kind::Gen0Size), None);
        assert_eq!(rates.switched_off(Kind::Collector), None);
    }
}
