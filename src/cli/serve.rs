//! `kubepermit serve`: MCP over standard input and output until the input ends or a signal comes.

use std::io::IsTerminal;
use std::process::ExitCode;

use crate::app::App;
use crate::cli::GatewayOptions;
use crate::cli::terminal;
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
    let session = transport::serve(app.gateway(), tokio::io::stdin(), output);
    let end = tokio::select! {
        end = session => end.map_err(anyhow::Error::from),
        () = shutdown::requested() => Ok(()),
    };
    app.stop().await;
    end.map(|()| ExitCode::SUCCESS)
}
