use std::path::Path;
use std::sync::{Arc, mpsc};

use tokio::time::Instant;

use super::*;
use crate::script::{End, Script, ScriptedAnswer};

fn client(script: &Script, token: Option<&Path>) -> Client<Script> {
    let token = token.map(|path| TokenFile::open(path.to_owned()).unwrap());
    Client::new(script.clone(), "the script".to_owned(), token)
}

fn refused(message: &str) -> ScriptedAnswer {
    ScriptedAnswer::whole(401, serde_json::json!({"message": message}).to_string())
}

fn tokens(script: &Script) -> Vec<String> {
    let asked = script.asked().into_iter();
    asked
        .filter_map(|asked| Some(asked.authorization?.to_str().unwrap().to_owned()))
        .collect()
}

/// Halts the paused clock while the returned value lives. A token is read on a separate thread, and the paused clock
/// would advance instead of waiting for this thread. After 10 s of real time, the clock advances again, so that a
/// failing test ends.
fn halted_clock() -> mpsc::Sender<()> {
    let (sender, receiver) = mpsc::channel();
    tokio::task::spawn_blocking(move || receiver.recv_timeout(Duration::from_secs(10)));
    sender
}

/// Scenario: the token is replaced while a request with the old token is in flight, and the old token is rejected.
/// Guarantee: the new token is sent at once, and only once; a rejected token that was not replaced is not sent again.
#[tokio::test(start_paused = true)]
async fn replaced_token_is_sent_at_once() {
    let _halted = halted_clock();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "old").unwrap();
    let mut script = Script::new([
        refused("old"),
        ScriptedAnswer::whole(200, "{}"),
        refused("new"),
        refused("never"),
    ]);
    let replaced = path.clone();
    script.meanwhile = Some(Arc::new(move |number| {
        if number == 1 {
            std::fs::write(&replaced, "new").unwrap();
        }
    }));
    let begin = Instant::now();
    let client = client(&script, Some(&path));
    assert_eq!(client.whole("/pods", 10).await.unwrap(), b"{}");
    let error = client.whole("/pods", 10).await.unwrap_err();
    assert!(matches!(error, AnswerError::Unauthorized(_)), "{error}");
    assert_eq!(tokens(&script), ["Bearer old", "Bearer new", "Bearer new"]);
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

/// Scenario: a server repeats the token in its refusal.
/// Guarantee: neither the error nor any `Debug` output of the client contains the token.
#[tokio::test(start_paused = true)]
async fn repeated_token_is_not_revealed() {
    let _halted = halted_clock();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "s3cr3t-token").unwrap();
    let script = Script::new([refused("who is s3cr3t-token?\u{1b}[31m")]);
    let client = client(&script, Some(&path));
    let error = client.whole("/pods", 10).await.unwrap_err();
    let shown = format!("{error} {error:?} {:?}", client.token);
    assert!(!shown.contains("s3cr3t") && !shown.contains('\u{1b}'), "{shown}");
    assert!(error.to_string().contains("who is <redacted>?"), "{error}");
}

/// Scenario: an answer is missing, does not end, breaks off, or is too long; an error does not end.
/// Guarantee: each case is an error with its reason, within twice the timeout. An answer of exactly the maximum size is
/// returned.
#[tokio::test(start_paused = true)]
async fn answers_are_bounded_in_time_and_size() {
    let pieces = || vec![Bytes::from_static(b"12345"), Bytes::from_static(b"67890")];
    let script = Script::new([
        ScriptedAnswer::Nothing,
        ScriptedAnswer::Answer(200, None, pieces(), End::Silence),
        ScriptedAnswer::Answer(200, None, pieces(), End::Broken),
        ScriptedAnswer::Answer(200, None, pieces(), End::InOrder),
        ScriptedAnswer::Answer(200, None, pieces(), End::InOrder),
        ScriptedAnswer::Answer(500, None, pieces(), End::Silence),
    ]);
    let client = client(&script, None);
    let mut found = Vec::new();
    for limit in [10, 10, 10, 9, 10, 10] {
        let begin = Instant::now();
        found.push(match client.whole("/pods", limit).await {
            Ok(bytes) => bytes.len().to_string(),
            Err(error) => error.to_string(),
        });
        assert!(begin.elapsed() <= 2 * ANSWER_TIMEOUT);
    }
    assert_eq!(
        found,
        [
            "no answer within 30s",
            "no answer within 30s",
            "the answer broke off: the script ends it",
            "the answer is longer than 9 bytes",
            "10",
            "the server answered 500 Internal Server Error",
        ]
    );
}

/// Scenario: refusals have `Retry-After` as seconds, as a date, as an invalid number, and in the body.
/// Guarantee: the requested delay is returned, at most ten minutes. A date and an invalid number are ignored.
#[tokio::test(start_paused = true)]
async fn retry_after_is_parsed() {
    let refused = |status, header| ScriptedAnswer::Answer(status, header, Vec::new(), End::InOrder);
    let body = r#"{"message": "later", "details": {"retryAfterSeconds": 7}}"#;
    let script = Script::new([
        refused(429, Some("120")),
        refused(503, Some(" 2 ")),
        refused(429, Some("999999999999")),
        refused(429, Some("Sun, 06 Nov 1994 08:49:37 GMT")),
        refused(429, Some("-1")),
        ScriptedAnswer::whole(429, body),
        refused(500, None),
    ]);
    let client = client(&script, None);
    let mut delays = Vec::new();
    for _ in 0..7 {
        let error = client.whole("/pods", 10).await.unwrap_err();
        delays.push(error.retry_after().map(|delay| delay.as_secs()));
    }
    assert_eq!(delays, [Some(120), Some(2), Some(600), None, None, Some(7), None]);
}
