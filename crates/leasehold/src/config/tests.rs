//! Precedence and mistakes, by tables: flags, environment and file go in, a value and its source or a sentence comes
//! out.

use std::fmt::Write as _;

use clap::Parser as _;

use super::*;
use crate::cli::{Cli, CliCommand};

/// Loads as the process would, with `file` as the text of every file.
fn load_from(flags: &[&str], variables: &[(&str, &str)], file: &str) -> Result<Loaded, String> {
    let command_line = ["leasehold", "serve"].iter().chain(flags);
    let CliCommand::Serve(args) = Cli::try_parse_from(command_line).map_err(|error| error.to_string())?.command else {
        panic!("it serves")
    };
    let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    load(&args, variables, |_| Ok(file.to_owned())).map_err(|error| error.to_string())
}

/// The line of `--print-config` about `key`, with its spaces squeezed.
fn line_of(loaded: &Loaded, key: &str) -> String {
    let text = loaded.to_toml();
    let line = text.lines().find(|line| line.trim_start_matches("# ").starts_with(&format!("{key} "))).unwrap();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_defaults_of_the_table_are_those_of_the_settings() {
    let config = load_from(&[], &[], "").unwrap().config;
    assert_eq!(config.settings, Settings::default());
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.store, Store::Directory("./leasehold-data".into()));
    assert_eq!((config.log_format, &*config.log_filter), (LogFormat::Human, "info"));
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let file = "ttl_max = \"1h\"\n";
    let from_file = ["--config", "f.toml"];
    let all = ["--config", "f.toml", "--ttl-max", "3h"];
    let env = [("LEASEHOLD_TTL_MAX", "2h")];
    for (flags, variables, expected) in [
        (&[][..], &[][..], r#"ttl_max = "24h" # default"#),
        (&from_file, &[], r#"ttl_max = "1h" # file f.toml line 1"#),
        (&from_file, &env, r#"ttl_max = "2h" # environment LEASEHOLD_TTL_MAX"#),
        (&all, &env, r#"ttl_max = "3h" # flag --ttl-max"#),
        (&[], &[("LEASEHOLD_TTL_MAX", "")], r#"ttl_max = "24h" # default"#),
        (&[], &[("LEASEHOLD_CONFIG", "g.toml")], r#"ttl_max = "1h" # file g.toml line 1"#),
    ] {
        assert_eq!(line_of(&load_from(flags, variables, file).unwrap(), "ttl_max"), expected);
    }
}

#[test]
fn earlier_names_of_limits_still_work_and_are_shown_under_the_new_ones() {
    for (earlier, now) in keys::EARLIER {
        let key = keys::Key::find(now).unwrap();
        assert_eq!((key.name, key.earlier_name()), (now, Some(earlier)));
        let value = match key.rule {
            keys::ValueRule::Duration(_) => "2h",
            keys::ValueRule::Size(_) => "2KiB",
            _ => "2",
        };
        let value = if now == "state_max" { "2MiB" } else { value };
        let flag = format!("--{}", earlier.replace('_', "-"));
        let variable = format!("LEASEHOLD_{}", earlier.to_uppercase());
        let file = format!("{earlier} = \"{value}\"");
        let expected = |source: &str| {
            format!("{now} = {} # {source}", if value == "2" { "2".to_owned() } else { format!("{value:?}") })
        };
        for (flags, variables, file, source) in [
            (&[&*flag, value][..], &[][..], "", format!("flag {}", key.flag())),
            (&[], &[(&*variable, value)], "", format!("environment {variable}")),
            (&["--config", "f"], &[], &*file, "file f line 1".to_owned()),
        ] {
            assert_eq!(line_of(&load_from(flags, variables, file).unwrap(), now), expected(&source));
        }
        let both = format!("{file}\n{now} = \"{value}\"");
        let refused = load_from(&["--config", "f"], &[], &both).unwrap_err();
        assert_eq!(refused, format!("f has both {now} and {earlier}, which are one setting"));
        let (old, new) = ((&*variable, value), (&*key.variable(), value));
        for variables in [[old, new], [new, old]] {
            let loaded = load_from(&[], &variables, "").unwrap();
            assert_eq!(line_of(&loaded, now), expected(&format!("environment {}", key.variable())));
        }
    }
    assert!(keys::KEYS.iter().all(|key| !key.name.starts_with("max_")), "a limit is called <what>_max");
}

#[test]
fn every_key_can_be_set_in_every_way() {
    for (key, written, printed) in [
        ("listen", "localhost:9000", r#""localhost:9000""#),
        ("admin_listen", "[::1]:9001", r#""[::1]:9001""#),
        ("data", "/var/lib/lease hold", r#""/var/lib/lease hold""#),
        ("memory", "true", "true"),
        ("grace", "1500ms", r#""1.5s""#),
        ("default_ttl", "45s", r#""45s""#),
        ("ttl_max", "7d", r#""168h""#),
        ("wait_max", "90s", r#""1m30s""#),
        ("count_max", "20", "20"),
        ("timeout_max", "7d", r#""168h""#),
        ("fleetlock_ttl", "30m", r#""30m""#),
        ("metadata_max", "2048", r#""2KiB""#),
        ("state_max", "1GiB", r#""1GiB""#),
        ("retain_finished", "0s", r#""0s""#),
        ("retain_max", "0", "0"),
        ("store_timeout", "2s", r#""2s""#),
        ("connections_max", "50", "50"),
        ("waiters_max", "7", "7"),
        ("threads", "3", "3"),
        ("events_kept", "1000", "1000"),
        ("public_url", "https://locks.example.org/", r#""https://locks.example.org/""#),
        ("connections_max_per_address", "12", "12"),
        ("allowed_hosts", "locks.internal, LOCKS", r#""locks.internal, LOCKS""#),
        (
            "allow_origin",
            "https://app.example.org,http://localhost:3000",
            r#""https://app.example.org,http://localhost:3000""#,
        ),
        ("log_format", "json", r#""json""#),
        ("log_level", "debug", r#""debug""#),
        ("access_log", "true", "true"),
        ("log_renewals", "true", "true"),
    ] {
        let key = Key::find(key).unwrap();
        let flag = key.flag();
        let flags = if matches!(key.rule, ValueRule::Bool) { vec![&*flag] } else { vec![&*flag, written] };
        let by_flag = load_from(&flags, &[], "").unwrap();
        assert_eq!(line_of(&by_flag, key.name), format!("{} = {printed} # flag {flag}", key.name));

        let variable = key.variable();
        let by_variable = load_from(&[], &[(&variable, written)], "").unwrap();
        assert_eq!(line_of(&by_variable, key.name), format!("{} = {printed} # environment {variable}", key.name));
        assert_eq!(by_variable.config, by_flag.config);

        let bare = matches!(key.rule, ValueRule::Bool | ValueRule::Integer(_));
        let file = if bare { format!("\n{} = {written}", key.name) } else { format!("\n{} = {written:?}", key.name) };
        let by_file = load_from(&["--config", "f"], &[], &file).unwrap();
        assert_eq!(line_of(&by_file, key.name), format!("{} = {printed} # file f line 2", key.name));
        assert_eq!(by_file.config, by_flag.config);
    }
}

#[test]
fn tls_is_four_settings_that_go_together() {
    let pair = ["--tls-cert", "c.pem", "--tls-key", "k.pem"];
    let shown = |loaded: &Loaded| {
        let tls = loaded.config.tls.as_ref().unwrap();
        let clients = tls.clients.as_ref().map(|clients| (clients.ca.path.clone(), clients.is_required));
        (tls.cert.path.clone(), tls.key.path.clone(), clients)
    };
    let loaded = load_from(&pair, &[], "").unwrap();
    assert_eq!(shown(&loaded), ("c.pem".into(), "k.pem".into(), None));
    assert_eq!((loaded.config.settings.speaks_tls, loaded.config.scheme()), (true, "https"));
    let ca = [("LEASEHOLD_TLS_CLIENT_CA", "ca.pem")];
    let required = load_from(&pair, &ca, "").unwrap();
    assert_eq!(shown(&required).2, Some(("ca.pem".into(), true)), "an operator that asks for certificates means it");
    assert!(required.config.requires_certificates() && required.warnings.is_empty());
    let optional = load_from(&[&pair[..], &["--config", "f"]].concat(), &ca, "tls_client_auth = \"optional\"").unwrap();
    assert_eq!(shown(&optional).2, Some(("ca.pem".into(), false)));
    assert!(optional.warnings[0].contains("nothing depends on it"), "{:?}", optional.warnings);
    let again = load_from(&["--config", "f"], &[], &optional.to_toml()).unwrap();
    assert_eq!(shown(&again), shown(&optional), "printed and read again");
    assert_eq!(load_from(&[], &[], "").unwrap().config.scheme(), "http");
    let empty = load_from(&["--tls-cert", "", "--tls-key", "k"], &[], "").unwrap_err();
    assert!(empty.ends_with("but \"\" names no file (flag --tls-cert)"), "{empty}");
}

#[test]
fn what_is_printed_gives_the_same_again() {
    for flags in [
        &[][..],
        &["--memory", "--grace", "1500ms", "--public-url", "https://x.example/y/"],
        &["--data", "C:\\data \"x\"", "--listen", "[::1]:0", "--ttl-max", "10s", "--log-level", "info,x=debug"],
    ] {
        let loaded = load_from(flags, &[], "").unwrap();
        let again = load_from(&["--config", "f"], &[], &loaded.to_toml()).unwrap();
        assert_eq!(again.config, loaded.config, "{flags:?}");
    }
}

#[test]
fn mistakes_are_told_with_key_problem_and_range() {
    for (flags, variables, file, expected) in [
        (
            &["--grace", "5"][..],
            &[][..],
            "",
            r#"grace must be a duration from 0s to 24h, but "5" has no unit, write one of ms, s, m, h, d after the number (flag --grace)"#,
        ),
        (
            &["--grace", "25h"],
            &[],
            "",
            r#"grace must be a duration from 0s to 24h, but "25h" is out of range (flag --grace)"#,
        ),
        (
            &[],
            &[("LEASEHOLD_COUNT_MAX", "0")],
            "",
            r#"count_max must be an integer from 1 to 1000000, but "0" is out of range (environment LEASEHOLD_COUNT_MAX)"#,
        ),
        (
            &[],
            &[("LEASEHOLD_COUNT_MAX", "many")],
            "",
            r#"count_max must be an integer from 1 to 1000000, but "many" is not an integer, or far out of range (environment LEASEHOLD_COUNT_MAX)"#,
        ),
        (
            &["--config", "f"],
            &[],
            "grace = 5",
            r#"grace must be a duration from 0s to 24h, but "5" has no unit, write one of ms, s, m, h, d after the number (file f line 1)"#,
        ),
        (
            &["--config", "f"],
            &[],
            "count_max = 1.5",
            "count_max must be an integer from 1 to 1000000, but is a TOML float (f line 1)",
        ),
        (
            &["--config", "f"],
            &[],
            "[listen]\nport = 5",
            "listen must be an address such as 127.0.0.1:8080, localhost:8080 or :8080, but is a TOML table (f line 1)",
        ),
        (
            &["--config", "f"],
            &[],
            "# x\n\nmax_tll = 5",
            r#"f line 3 has the unknown key "max_tll", did you mean ttl_max?"#,
        ),
        (&["--config", "f"], &[], "colour = 5", r#"f line 1 has the unknown key "colour""#),
        (&["--config", "f"], &[], "# x\n[auth\n", "f line 2 is not TOML: a heading is not closed ([name])"),
        (&["--config", "f"], &[], "grace", "f line 1 is not TOML: there is no = and value after a name (name = value)"),
        (
            &["--config", "f"],
            &[],
            "grace =\n",
            r#"f line 1 is not TOML: there is no value after the =, or a text is not in quotes (name = "text")"#,
        ),
        (
            &["--config", "f"],
            &[],
            "grace = \"1s\"\ngrace = \"2s\"",
            "f line 2 is not TOML: a name is there a second time",
        ),
        (
            &["--listen", "8080"],
            &[],
            "",
            r#"listen must be an address such as 127.0.0.1:8080, localhost:8080 or :8080, but "8080" has no port (flag --listen)"#,
        ),
        (
            &["--public-url", "locks.example.org"],
            &[],
            "",
            r#"public_url must be a URL such as https://locks.example.org, without a query, but "locks.example.org" begins with neither http:// nor https:// (flag --public-url)"#,
        ),
        (
            &["--log-format", "xml"],
            &[],
            "",
            r#"log_format must be human or json, but "xml" is neither (flag --log-format)"#,
        ),
        (
            &["--default-ttl", "1h", "--ttl-max", "1m"],
            &[],
            "",
            "default_ttl must be at most ttl_max, but is longer (flag --default-ttl)",
        ),
        (
            &["--config", "f"],
            &[],
            "memory = true\ndata = \"x\"",
            "memory and data exclude each other (file f line 1 and file f line 2)",
        ),
        (&["--data", ""], &[], "", "data must be a directory, but is empty (flag --data)"),
    ] {
        assert_eq!(load_from(flags, variables, file).map(|loaded| loaded.config), Err(expected.to_owned()));
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let args = ServeArgs { config: Some("nowhere.toml".into()), ..ServeArgs::default() };
    let error = load(&args, [], |_| Err(std::io::ErrorKind::NotFound.into())).unwrap_err();
    assert_eq!(error.to_string(), "nowhere.toml could not be read: entity not found");
}

#[test]
fn the_stronger_of_memory_and_data_wins() {
    let file_memory = "memory = true";
    for (flags, variables, file, expected) in [
        (&["--memory"][..], &[][..], "", Store::Memory),
        (&["--memory"], &[("LEASEHOLD_DATA", "d")], "", Store::Memory),
        (&["--data", "d", "--config", "f"], &[], file_memory, Store::Directory("d".into())),
        (&["--config", "f"], &[("LEASEHOLD_DATA", "d")], file_memory, Store::Directory("d".into())),
        (
            &["--config", "f"],
            &[("LEASEHOLD_MEMORY", "false")],
            file_memory,
            Store::Directory("./leasehold-data".into()),
        ),
    ] {
        assert_eq!(load_from(flags, variables, file).unwrap().config.store, expected, "{flags:?} {variables:?}");
    }
}

#[test]
fn a_lower_maximum_lowers_the_default_ttl_nobody_set() {
    let loaded = load_from(&["--ttl-max", "10s"], &[], "").unwrap();
    assert_eq!(loaded.config.settings.default_ttl_us, 10_000_000);
    assert_eq!(line_of(&loaded, "default_ttl"), r#"default_ttl = "10s" # default"#);
}

#[test]
fn unknown_variables_are_warned_about() {
    let variables = [
        ("LEASEHOLD_MAX_TLL", "1h"),
        ("LEASEHOLD_COLOUR", "red"),
        ("HOME", "/root"),
        ("LEASEHOLD_SERVICE_HOST", "10.0.0.1"),
        ("LEASEHOLD_PORT", "tcp://10.0.0.1:8080"),
        ("LEASEHOLD_PORT_8080_TCP_ADDR", "10.0.0.1"),
        ("LEASEHOLD_URL", "http://127.0.0.1:8080"),
        ("LEASEHOLD_TOKEN_FILE", "/etc/leasehold/token"),
        ("LEASEHOLD_FENCING_TOKEN", "7"),
    ];
    assert_eq!(
        load_from(&[], &variables, "").unwrap().warnings,
        [
            "environment variable LEASEHOLD_COLOUR is unknown and ignored",
            "environment variable LEASEHOLD_MAX_TLL is unknown and ignored, did you mean LEASEHOLD_TTL_MAX?",
        ]
    );
}

#[test]
fn addresses_as_people_write_them() {
    for (text, expected) in [
        ("127.0.0.1:8080", Ok("127.0.0.1:8080")),
        (":8080", Ok("0.0.0.0:8080")),
        ("localhost:0", Ok("localhost:0")),
        ("[::1]:80", Ok("[::1]:80")),
        ("::1:80", Err("has an IPv6 address without [ ] around it")),
        ("localhost", Err("has no port")),
        ("localhost:http", Err("has a port that is not a number from 0 to 65535")),
        ("localhost:65536", Err("has a port that is not a number from 0 to 65535")),
        ("http://localhost/x:80", Err("has an IPv6 address without [ ] around it")),
        ("a/b:80", Err("is not a host and a port")),
    ] {
        let read = keys::read_address(text).map(|address| address.to_string());
        assert_eq!(read.as_deref().map_err(String::as_str), expected, "{text}");
    }
}

#[test]
fn urls_have_a_scheme_a_host_and_no_query() {
    for (text, expected) in [
        ("https://x.example/", Ok("https://x.example")),
        ("http://x:8080/base", Ok("http://x:8080/base")),
        ("https://", Err("has no host")),
        ("https:///x", Err("has no host")),
        ("ftp://x", Err("begins with neither http:// nor https://")),
        ("https://x?y", Err("has characters that do not belong there")),
        ("https://user@x", Err("has characters that do not belong there")),
        ("https://x y", Err("has characters that do not belong there")),
    ] {
        assert_eq!(keys::read_url(text).as_deref().map_err(String::as_str), expected, "{text}");
    }
}

#[test]
fn traces_need_a_build_that_makes_them_and_a_collector_nearby() {
    let said = |url| load_from(&["--otlp-endpoint", url], &[], "").map(|_| ());
    if cfg!(feature = "otlp") {
        assert_eq!(said("http://localhost:4318"), Ok(()));
        assert!(said("https://traces.example").unwrap_err().contains("collector nearby"));
    } else {
        let expected = "otlp_endpoint is set (flag --otlp-endpoint), but this program was built without traces: build it with \
                        --features otlp, or leave the setting out";
        assert_eq!(said("http://localhost:4318").unwrap_err(), expected);
    }
}

/// The table of settings as docs/settings.md shows it.
fn table_for_docs() -> String {
    let mut table = "| setting | default | allowed | meaning |\n|---|---|---|---|\n".to_owned();
    for key in &KEYS {
        let default = match (key.default_text(), key.default_words()) {
            (Some(text), _) => format!("`{text}`"),
            (None, Some(words)) => words,
            (None, None) => "none".to_owned(),
        };
        let (rule, help) = (key.rule.to_string().replace('|', "\\|"), key.help.replace('|', "\\|"));
        let _ = writeln!(table, "| `{}` | {default} | {rule} | {help} |", key.name);
    }
    table
}

#[test]
fn the_table_in_the_docs_is_the_table_of_settings() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/settings.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (head, _) = page.split_once("| setting |").expect("the page has the table");
    let expected = format!("{head}{}", table_for_docs());
    if std::env::var("SETTINGS").is_ok_and(|mode| mode == "rewrite") {
        std::fs::write(path, &expected).unwrap();
        return;
    }
    assert_eq!(page, expected, "SETTINGS=rewrite cargo test -p leasehold the_table_in_the_docs writes it anew");
}

#[test]
fn the_defaults_that_operations_names_are_those_of_the_table() {
    let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md"));
    let (_, table) = page.split_once("| setting | default | change it when |\n").expect("the page has the table");
    let mut compared = 0;
    for row in table.lines().skip(1).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split('|').collect();
        let defaults: Vec<&str> = cells[2].split(',').map(|cell| cell.trim().trim_matches('`')).collect();
        for (name, default) in cells[1].split(',').map(|cell| cell.trim().trim_matches('`')).zip(defaults) {
            let key = Key::find(name).unwrap_or_else(|| panic!("{name} is no setting"));
            if let Some(text) = key.default_text() {
                assert_eq!(default, text, "{name}");
                compared += 1;
            }
        }
    }
    assert!(compared > 10, "{compared} defaults were compared");
}

/// Sentences of pages and files that repeat a default, which stands for `{}` here.
const REPEATED: &[(&str, &str, &str)] = &[
    ("docs/api.md", "retain_max", "(`--retain-finished`, at most {} of them"),
    ("docs/api.md", "ttl_max", "(defaults: ttl {}, wait"),
    ("docs/api.md", "wait_max", ", wait {}): clamped"),
    ("docs/api.md", "timeout_max", "configured maximum, {} by default, it is cut"),
    ("docs/api.md", "timeout_max", "(`--timeout-max`, {}) they are cut"),
    ("docs/api.md", "metadata_max", "`metadata` any JSON, at most {} (a setting)"),
    ("docs/api.md", "retain_finished", "a retention time (default {}, at most"),
    ("docs/api.md", "retain_max", "h, at most {} of them, and no more than a quarter"),
    ("docs/api.md", "default_ttl", "`0.5s`), default {}; anything else"),
    ("docs/api.md", "grace", "The grace period ({}) and"),
    ("docs/api.md", "default_ttl", "the default ttl ({}) are settings"),
    ("docs/api.md", "events_kept", "The last `events_kept` events ({}, a setting)"),
    ("deploy/prometheus/alerts.yml", "node_ttl", "At node_ttl ({} by default)"),
    ("deploy/systemd/leasehold.service", "connections_max", "(connections_max is {})"),
];

/// The ways in which sentences write a value.
fn spellings(text: &str) -> Vec<String> {
    let number_end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let number: u64 = number.parse().expect("defaults that sentences repeat begin with a number");
    let spaced = |number: u64| {
        let digits = number.to_string();
        let groups: Vec<&str> =
            digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect();
        groups.join(" ")
    };
    let seconds = match unit {
        "s" => number,
        "m" => number * 60,
        "h" => number * 3_600,
        _ => return vec![number.to_string(), spaced(number), format!("{number} {unit}")],
    };
    vec![
        format!("{} s", spaced(seconds)),
        format!("{} h", spaced(seconds / 3_600)),
        format!("{} days", spaced(seconds / 86_400)),
    ]
}

#[test]
fn the_defaults_that_other_pages_and_files_repeat_are_those_of_the_table() {
    for (file, name, sentence) in REPEATED {
        let path = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
        let page = std::fs::read_to_string(path).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        let default = Key::find(name).and_then(Key::default_text).unwrap_or_else(|| panic!("{name} has no default"));
        let expected: Vec<String> = spellings(&default).iter().map(|value| sentence.replace("{}", value)).collect();
        assert!(expected.iter().any(|text| page.contains(text)), "{file} does not say, or says another: {expected:?}");
    }
}
