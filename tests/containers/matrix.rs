//! The rights that gcwatch needs for a process of another user in another container, measured with gcwatch itself.

use test_support::add_tests;
use test_support::harness::Tests;

use crate::container::{Recipe, USER, containers};
use crate::gcwatch::{LEAST_PRIVILEGES, texts, verdict};

pub(crate) fn tests(tests: &mut Tests) {
    add_tests!(tests, containers; sufficient_rights_are_exactly_known, socket_in_unreadable_tmpdir_is_found);
}

/// A row of the matrix: the rights of gcwatch (`setpriv`), and the expected remedy: `None` if gcwatch can attach,
/// otherwise words that the remedy must contain and words that it must not contain.
struct Row {
    name: &'static str,
    who: Vec<String>,
    says: Option<(&'static [&'static str], &'static [&'static str])>,
}

fn row(name: &'static str, who: &str, says: Option<(&'static [&'static str], &'static [&'static str])>) -> Row {
    let who = format!("setpriv {who}").split_whitespace().map(str::to_owned).collect();
    Row { name, who, says }
}

const BOTH: &[&str] = &["CAP_SYS_PTRACE", "CAP_DAC_OVERRIDE"];
const PTRACE: &[&str] = &["CAP_SYS_PTRACE"];
const OVERRIDE: &[&str] = &["CAP_DAC_OVERRIDE"];

fn rows() -> Vec<Row> {
    let own = format!("--reuid {USER} --regid {USER} --clear-groups --bounding-set -all --inh-caps -all");
    let other_group = format!("--reuid {USER} --regid 7 --clear-groups --bounding-set -all --inh-caps -all");
    let two = "+sys_ptrace,+dac_override";
    vec![
        row("root, all capabilities", "--inh-caps -all", None),
        row("root, none", "--bounding-set -all --inh-caps -all", Some((BOTH, &[]))),
        row(
            "root, SYS_PTRACE",
            "--bounding-set -all,+sys_ptrace --inh-caps -all",
            Some((OVERRIDE, &["CAP_SYS_PTRACE"])),
        ),
        row(
            "root, SYS_PTRACE and DAC_READ_SEARCH",
            "--bounding-set -all,+sys_ptrace,+dac_read_search --inh-caps -all",
            Some((OVERRIDE, &["CAP_SYS_PTRACE"])),
        ),
        row(
            "root, DAC_OVERRIDE",
            "--bounding-set -all,+dac_override --inh-caps -all",
            Some((PTRACE, &["CAP_DAC_OVERRIDE"])),
        ),
        row(
            "root, SYS_PTRACE and DAC_OVERRIDE, no new privileges",
            &format!("--bounding-set -all,{two} --inh-caps -all --no-new-privs"),
            None,
        ),
        row("the same user and group, no capabilities", &own, None),
        row("the same user, another group", &other_group, Some((BOTH, &[]))),
        row(
            "a user, both only in the bounding set",
            &format!("--reuid 65532 --regid 65532 --clear-groups --inh-caps -all --bounding-set -all,{two}"),
            Some((&["runAsUser 0"], &["AppArmor"])),
        ),
        row(
            "a user, both ambient",
            &format!("--reuid 999 --regid 999 --clear-groups --inh-caps -all,{two} --ambient-caps {two}"),
            None,
        ),
    ]
}

/// Scenario: a process of another user runs in its own mount, pid, network and IPC namespaces; gcwatch runs with each
/// set of rights.
/// Guarantee: gcwatch attaches exactly if the rights are sufficient; otherwise the verdict is `permission`, and its
/// remedy names exactly the missing rights.
fn sufficient_rights_are_exactly_known() {
    let container = Recipe::default().start();
    for Row { name, who, says } in rows() {
        let who: Vec<&str> = who.iter().map(String::as_str).collect();
        let found = verdict(&who, container.pid);
        let text = texts(&found);
        match says {
            None => assert_eq!(found["verdict"], "attachable", "{name}: {text}"),
            Some((words, others)) => {
                assert_eq!(found["verdict"], "permission", "{name}: {text}");
                let remedy = found["remedy"].as_str().unwrap();
                assert!(words.iter().all(|word| remedy.contains(word)), "{name}: {text}");
                // The words before the colon name the missing rights.
                let missing = remedy.split(':').next().unwrap();
                assert!(others.iter().all(|word| !missing.contains(word)), "{name}: {text}");
            }
        }
    }
}

/// Scenario: the socket of a process is in a separate TMPDIR, and gcwatch can read everything except the environment of
/// the process.
/// Guarantee: the kernel's socket table reveals the socket, and the verdict is the missing right to connect.
fn socket_in_unreadable_tmpdir_is_found() {
    let recipe = Recipe {
        tmpdir: Some("/tmp/else where".to_owned()),
        prepare: "mkdir -m 1777 '/tmp/else where'".to_owned(),
        ..Recipe::default()
    };
    let container = recipe.start();
    let who = ["setpriv", "--bounding-set", "-all,+sys_ptrace", "--inh-caps", "-all"];
    let found = verdict(&who, container.pid);
    assert_eq!(found["verdict"], "permission", "{}", texts(&found));
    assert!(
        found["socket"].as_str().unwrap().contains("/tmp/else where/"),
        "{found}"
    );
    assert_eq!(verdict(LEAST_PRIVILEGES, container.pid)["verdict"], "attachable");
}
