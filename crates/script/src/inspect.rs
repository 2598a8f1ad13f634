//! The first look at a script: its init code is run once, to learn its options, its functions and
//! its metrics. Nothing is sent: requests are refused in the init stage.

use permit::SendControl;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use client::{Deadlines, OriginTable, Settings};
use stats::series::SeriesLayout;

use crate::host::{Alone, VuSetup};
use crate::log::Logger;
use crate::program::Script;
use crate::recorder::ScriptRecorder;
use crate::thrown::Thrown;
use crate::vu::{Description, Vu};

/// Runs the init code on the calling thread. The metrics that it declares are kept by the script.
pub fn inspect(script: &Arc<Script>, logger: &Logger) -> Result<Description, Thrown> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(tokio::runtime::LocalOptions::default())
        .map_err(|error| Thrown::new(format!("cannot start: {error}")))?;
    runtime.block_on(async {
        let http = plan::HttpOptions::default();
        let origins = Rc::new(OriginTable::new(&http, None));
        let settings = Settings {
            http,
            tls: Arc::new(OnceLock::new()),
            origins,
            send_control: SendControl::free(),
        };
        let vu = Vu::new(VuSetup {
            script: script.clone(),
            recorder: Rc::new(ScriptRecorder::new(Arc::new(SeriesLayout::new()), None, 0)),
            logger: logger.clone(),
            scenario: Rc::default(),
            environment: Rc::new(Alone),
            settings: Rc::new(settings),
            deadlines: Rc::new(Deadlines::default()),
            local_address: None,
            id_in_test: 0,
            id_in_instance: 0,
        })
        .map_err(|error| Thrown::new(format!("no memory for a stack: {error}")))?;
        vu.init().await?;
        vu.describe().await
    })
}
