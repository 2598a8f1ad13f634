//! Several levels of options become one: what a higher level sets wins.

use super::level::Options;
use super::network::Dns;

impl Options {
    /// Merges levels, the lowest first: config file, script, environment, flags.
    ///
    /// `duration`, `iterations`, `stages` and `scenarios` belong together: a level that sets one
    /// of them replaces all of them. `vus` is apart, so that `--vus` goes with a script's stages.
    /// Everything else is replaced key by key; a map (tags, hosts, thresholds) is one key, except
    /// `dns`, whose settings are replaced one by one.
    pub fn merge(levels: impl IntoIterator<Item = Options>) -> Options {
        levels.into_iter().fold(Options::default(), Options::overridden_by)
    }

    fn overridden_by(self, higher: Options) -> Options {
        let mut merged = self;
        if higher.has_load() {
            if higher.scenarios.is_some() {
                merged.scenarios_replaced_by = None;
            } else if merged.scenarios.is_some() {
                merged.scenarios_replaced_by = higher.load_place.clone();
            }
            merged.duration = higher.duration;
            merged.iterations = higher.iterations;
            merged.stages = higher.stages;
            merged.scenarios = higher.scenarios;
            merged.load_place = higher.load_place;
        }
        macro_rules! take {
            ($($field:ident),* $(,)?) => {
                $( merged.$field = higher.$field.or(merged.$field); )*
            };
        }
        take!(
            paused,
            vus,
            execution_segment,
            execution_segment_sequence,
            no_setup,
            setup_timeout,
            no_teardown,
            teardown_timeout,
            handle_summary_timeout,
            rps,
            max_redirects,
            user_agent,
            batch,
            batch_per_host,
            http_debug,
            insecure_skip_tls_verify,
            tls_cipher_suites,
            tls_version,
            tls_auth,
            throw,
            thresholds,
            blacklist_ips,
            block_hostnames,
            hosts,
            no_connection_reuse,
            no_vu_connection_reuse,
            min_iteration_duration,
            cloud,
            ext,
            summary_trend_stats,
            summary_time_unit,
            system_tags,
            tags,
            metric_samples_buffer_size,
            no_cookies_reset,
            discard_response_bodies,
            console_output,
            local_ips,
        );
        merged.dns = Dns {
            ttl: higher.dns.ttl.or(merged.dns.ttl),
            select: higher.dns.select.or(merged.dns.select),
            policy: higher.dns.policy.or(merged.dns.policy),
        };
        merged
    }
}
