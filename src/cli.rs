//! The command line: what may be typed, and which command it leads to.

mod call;
mod doctor;
mod options;
mod policy;
mod serve;
mod terminal;
mod tools;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use options::GatewayOptions;

/// Exit codes, the same for every command.
pub mod exit {
    /// The command did what it was asked; a job succeeded, a read gave something.
    pub const SUCCESS: u8 = 0;
    /// A job failed, timed out or could not run; a read failed; a policy test or a check of doctor failed.
    pub const FAILED: u8 = 1;
    /// A call was refused, or the command line or configuration cannot be used.
    pub const REFUSED: u8 = 2;
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done; the job succeeded, the tests passed, no check of doctor failed
  1  the job failed, timed out or could not run; the read failed; a test or a check failed
  2  the call was refused, or the command line or configuration cannot be used";

/// An MCP gateway for Kubernetes: every call is checked against a schema, judged by a Rego policy and
/// recorded before it runs.
#[derive(Debug, Parser)]
#[command(name = "kubepermit", version, after_help = EXIT_CODES, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    options: GatewayOptions,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve MCP over standard input and output (also what `kubepermit` alone does).
    Serve(GatewayOptions),
    /// Make one call through the whole pipeline, without an agent.
    #[command(after_help = EXIT_CODES)]
    Call {
        /// The tool, as `kubepermit tools` lists it.
        tool: String,
        /// The arguments: JSON, or `@FILE` for a file that holds them, or `@-` for standard input.
        arguments: String,
        /// Print the decision and the exact manifest; record nothing and run nothing.
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        options: GatewayOptions,
    },
    /// List the tools as a client sees them.
    Tools(GatewayOptions),
    /// Check cluster, rights, kubectl, policy and audit log, and say what to do about what is wrong. Starts no job
    /// and changes nothing in the cluster.
    #[command(after_help = EXIT_CODES)]
    Doctor(GatewayOptions),
    /// Work on a policy bundle.
    #[command(subcommand)]
    Policy(PolicyCommand),
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Write the compiled-in bundle into a directory, for editing.
    Init {
        /// The directory; made when missing, refused when it holds anything.
        directory: PathBuf,
    },
    /// Run the bundle's unit tests (`test_` rules in `tests/`).
    #[command(after_help = EXIT_CODES)]
    Test {
        /// The bundle; the compiled-in one when absent.
        #[arg(long, env = "KUBEPERMIT_POLICIES", value_name = "DIR")]
        policies: Option<String>,
    },
}

impl Cli {
    /// Runs the command that was typed.
    ///
    /// # Errors
    /// What kept it from running: one text for standard error, exit code 2.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            None => serve::run(&self.options).await,
            Some(Command::Serve(options)) => serve::run(&options).await,
            Some(Command::Call { tool, arguments, dry_run, options }) => {
                call::run(&options, &tool, &arguments, dry_run).await
            }
            Some(Command::Tools(options)) => tools::run(&options).await,
            Some(Command::Doctor(options)) => doctor::run(&options).await,
            Some(Command::Policy(PolicyCommand::Init { directory })) => policy::init(&directory),
            Some(Command::Policy(PolicyCommand::Test { policies })) => {
                policy::test(policies.filter(|path| !path.is_empty()).map(PathBuf::from))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;
    use crate::config::Setting;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Every setting has its flag and its variable, and they are the ones that config.rs names in errors.
    #[test]
    fn every_setting_can_be_typed() {
        let command = Cli::command();
        for setting in Setting::ALL {
            let argument = command
                .get_arguments()
                .find(|argument| argument.get_long() == Some(setting.flag()))
                .unwrap_or_else(|| panic!("no flag --{}", setting.flag()));
            assert_eq!(argument.get_env().and_then(|name| name.to_str()), Some(setting.variable()));
        }
    }
}
