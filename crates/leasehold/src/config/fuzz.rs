//! Files that no operator should write: they give a configuration, or one sentence; and a configuration that is printed
//! reads the same again.

use super::*;

fn file(bytes: &[u8]) -> u64 {
    let Ok(text) = std::str::from_utf8(bytes) else { return 0 };
    let args = ServeArgs { config: Some("leasehold.toml".into()), ..ServeArgs::default() };
    let load_text = |text: &str| load(&args, [], |_| Ok(text.to_owned()));
    match load_text(text) {
        Ok(loaded) => {
            let printed = loaded.to_toml();
            if printed.contains(sign_on::HIDDEN) {
                // Hidden values do not come back.
                return 2;
            }
            let again = load_text(&printed).unwrap_or_else(|error| panic!("{error} in what was printed:\n{printed}"));
            assert_eq!(again.config, loaded.config, "{printed}");
            leasehold_fuzz::outcome(&loaded.chosen.0.iter().filter(|(_, given)| given.is_some()).count())
        }
        Err(ConfigError(sentence)) => {
            assert!(sentence.len() < 2_000 + 2 * text.len() && !sentence.contains('\n'), "{sentence}");
            let words = sentence.split_whitespace().filter(|word| !word.contains('"'));
            leasehold_fuzz::outcome(&words.take(9).collect::<Vec<_>>())
        }
    }
}

#[test]
fn no_file_is_too_strange() {
    let words = [
        "=",
        "\"",
        "\"\"\"",
        "'''",
        "[",
        "]",
        "{",
        "}",
        "#",
        "\n",
        "true",
        "0x",
        "_",
        ".",
        "1979-05-27",
        "inf",
        "\\u0000",
        "listen",
        "data",
        "memory",
        "grace",
        "ttl_max",
        "default_ttl",
        "count_max",
        "public_url",
        "log_level",
        "access_log",
        "5s",
        "https://",
        "[auth]",
        "[[auth.token]]",
        "[auth.proxy]",
        "[auth.oidc]",
        "[[policy]]",
        "[limits]",
        "issuer",
        "audience",
        "subjects",
        "actions",
        "[\"*\"]",
        "requests_per_second",
    ];
    leasehold_fuzz::run("config", &words, file);
}
