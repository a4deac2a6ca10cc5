//! Modules and data to a prepared engine.

use std::collections::BTreeMap;
use std::error::Error;
use std::thread;

use regorus::{Engine, Value};

use crate::policy::check;
use crate::policy::error::{LoadError, Problem};
use crate::policy::evaluate::STACK_BYTES;

/// The rule that is the decision.
pub(in crate::policy) const DECISION: &str = "data.kubepermit.decision";

/// Parses and checks `modules`, and makes an engine that needs no further preparation: to decide, clone it.
///
/// On a thread of its own: what comes from a bundle is parsed, walked, and dropped where it is refused, with the
/// stack that the checks count on.
pub(in crate::policy) fn compile<'a>(
    modules: impl Iterator<Item = (&'a str, &'a str)>,
    config: Value,
) -> Result<Engine, LoadError> {
    let modules: Vec<_> = modules.collect();
    thread::scope(|scope| {
        let work = || compile_here(&modules, config);
        let builder = thread::Builder::new().name("policy load".to_owned()).stack_size(STACK_BYTES);
        let thread = builder
            .spawn_scoped(scope, work)
            .map_err(|_| LoadError::Bundle("needs a thread that cannot be started"))?;
        thread.join().unwrap_or(Err(LoadError::Bundle("made the policy engine panic")))
    })
}

fn compile_here(modules: &[(&str, &str)], config: Value) -> Result<Engine, LoadError> {
    let mut engine = Engine::new();
    // A built-in that fails is an error and thereby a denial, never an undefined that makes a `deny` vanish.
    engine.set_strict_builtin_errors(true);
    // Otherwise `print` writes to stderr.
    engine.set_gather_prints(true);
    for (path, text) in modules {
        let tokens = check::text(path, text)?;
        engine
            .add_policy((*path).to_owned(), (*text).to_owned())
            .map_err(|error| engine_error(path, error.as_ref()))?;
        if let Some(module) = engine.get_modules().last() {
            check::whole(module, &tokens)?;
        }
    }
    check::modules(engine.get_modules())?;
    let data = Value::from(BTreeMap::from([(Value::from("config"), config)]));
    engine.add_data(data).map_err(|error| engine_error("data.yaml", error.as_ref()))?;
    // Any query makes the engine analyse and index all modules; the clones then share that.
    engine.eval_query("true".to_owned(), false).map_err(|error| engine_error("*.rego", error.as_ref()))?;
    Ok(engine)
}

/// The engine's many-line message as one: `images.rego:9: text`.
pub(in crate::policy) fn one_line(message: &str) -> String {
    match place(message) {
        Some((file, line, text)) => format!("{file}:{line}: {text}"),
        None => message.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

/// An error of the engine, as one that names its file and line.
pub(in crate::policy) fn engine_error(file: &str, error: &dyn Error) -> LoadError {
    let message = error.to_string();
    match place(&message) {
        Some((file, line, text)) => LoadError::rejected(file, Some(line), Problem::Rego(text)),
        None => LoadError::rejected(file, None, Problem::Rego(one_line(&message))),
    }
}

/// Takes a message of the engine apart. It is a picture: `--> file:line:col`, the source line with a caret
/// under it, and then `error: text`.
fn place(message: &str) -> Option<(String, u32, String)> {
    let (_, after) = message.split_once("--> ")?;
    let (position, rest) = after.split_once('\n')?;
    let (position, _column) = position.rsplit_once(':')?;
    let (file, line) = position.rsplit_once(':')?;
    let (_, text) = rest.split_once("error: ")?;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Some((file.to_owned(), line.parse().ok()?, text))
}
