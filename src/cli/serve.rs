//! `kubepermit serve`: MCP over standard input and output until the input ends or a signal comes.

use std::io::IsTerminal;
use std::process::ExitCode;

use crate::app::App;
use crate::cli::terminal;
use crate::cli::{GatewayOptions, exit};
use crate::transport;
use crate::{config, shutdown, telemetry};

pub(super) async fn run(options: &GatewayOptions) -> anyhow::Result<ExitCode> {
    telemetry::start(options.log()).map_err(anyhow::Error::msg)?;
    let output = terminal::protocol_output()?;
    let config = config::Config::read(&options.typed(), &config::Environment::read())?;
    for warning in config::variables_without_effect() {
        tracing::warn!("{warning}");
    }
    let app = App::start(config).await?;
    for notice in app.notices() {
        tracing::info!("{notice}");
    }
    if std::io::stdin().is_terminal() {
        tracing::info!("an MCP client is expected on standard input; end with Ctrl-D");
    }
    app.gateway().keep_house();
    let gateway = app.gateway();
    let mut session = std::pin::pin!(transport::serve(app.gateway(), tokio::io::stdin(), output));
    let mut open = true;
    let end = tokio::select! {
        end = &mut session => {
            open = false;
            end.map_err(anyhow::Error::from)
        }
        () = shutdown::requested() => Ok(()),
    };
    // What still runs may answer; the session is looked after until then.
    let mut stop = std::pin::pin!(async {
        gateway.wind_down(shutdown::GRACE).await;
        app.stop().await;
    });
    loop {
        tokio::select! {
            () = &mut stop => break,
            _ = &mut session, if open => open = false,
            () = shutdown::requested() => {
                tracing::warn!("ended at once; jobs of calls that waited are deleted by the next server, or expire");
                return Ok(ExitCode::from(exit::FAILED));
            }
        }
    }
    end.map(|()| ExitCode::SUCCESS)
}
