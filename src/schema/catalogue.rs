//! The tools that exist: `schemas/tools/*.json`, embedded and compiled once.

use std::collections::BTreeMap;

use include_dir::{Dir, include_dir};
use jsonschema::Validator;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::ids::DecisionId;
use crate::refusal::{Reason, Refusal, Stage};
use crate::schema::call::ToolCall;
use crate::schema::{arguments, validation};

static TOOLS: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/schemas/tools");

/// Every tool, with its validators. Immutable after start.
#[derive(Debug)]
pub struct Catalogue {
    tools: BTreeMap<String, Tool>,
}

#[derive(Debug)]
struct Tool {
    definition: ToolDefinition,
    input: Validator,
}

/// One file of `schemas/tools`, in the shape of an MCP `Tool`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolDefinition {
    /// `^[a-zA-Z0-9_-]{1,64}$`, as every client accepts it.
    pub name: String,
    /// For people.
    pub title: String,
    /// For the model; `{images}` and `{namespaces}` stand for the images that may be used and the namespaces
    /// that may be read now.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Map<String, Value>,
    /// JSON Schema of `structuredContent`.
    pub output_schema: Map<String, Value>,
    /// MCP's hints (`readOnlyHint` and so on).
    pub annotations: Value,
}

/// Why the catalogue cannot be used: the program must not start.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// The file is not a tool definition.
    #[error("tool definition `{file}` cannot be read: {cause}")]
    Definition {
        /// Name of the file.
        file: String,
        /// What the parser said.
        cause: String,
    },
    /// A schema in the file does not compile.
    #[error("tool definition `{file}`: `{schema}` is not a usable JSON Schema: {cause}")]
    Schema {
        /// Name of the file.
        file: String,
        /// `inputSchema` or `outputSchema`.
        schema: &'static str,
        /// What the compiler said.
        cause: String,
    },
    /// The schemas describe a tool that the program does not implement.
    #[error("tool definition `{file}` names the tool `{tool}`, which this program does not have")]
    Unimplemented {
        /// Name of the file.
        file: String,
        /// The tool's name.
        tool: String,
    },
}

impl Catalogue {
    /// The catalogue that is compiled into the program.
    ///
    /// # Errors
    /// [`CatalogueError`] names the file that cannot be used.
    pub fn load() -> Result<Self, CatalogueError> {
        Self::from_files(TOOLS.files().map(|file| {
            let name = file.path().display().to_string();
            (name, file.contents_utf8().unwrap_or_default().to_owned())
        }))
    }

    fn from_files(files: impl IntoIterator<Item = (String, String)>) -> Result<Self, CatalogueError> {
        let mut tools = BTreeMap::new();
        for (file, text) in files {
            let tool = Tool::compile(&file, &text)?;
            tools.insert(tool.definition.name.clone(), tool);
        }
        Ok(Self { tools })
    }

    /// Every tool's definition, in the order of their names.
    pub fn definitions(&self) -> impl Iterator<Item = &ToolDefinition> {
        self.tools.values().map(|tool| &tool.definition)
    }

    /// Whether a tool of this name exists.
    #[must_use]
    pub fn has(&self, tool: &str) -> bool {
        self.tools.contains_key(tool)
    }

    /// Makes the typed call of `tool` from `arguments`.
    ///
    /// # Errors
    /// A [`Refusal`] of stage `schema`, with the path, the rule and the fix of up to ten faults. An unknown
    /// tool has the code `schema.unknown_tool`; a transport asks [`Catalogue::has`] first, since MCP wants a
    /// protocol error for it.
    pub fn admit(&self, id: DecisionId, tool: &str, arguments: Value) -> Result<ToolCall, Refusal> {
        let Some(known) = self.tools.get(tool) else {
            let names: Vec<&str> = self.tools.keys().map(String::as_str).collect();
            return Err(Refusal::because(
                Stage::Schema,
                Reason::new(
                    "schema.unknown_tool",
                    "there is no tool of this name",
                    "",
                    format!("the tools are: {}", names.join(", ")),
                ),
            ));
        };
        let faults = validation::faults(&known.input, &known.definition.input_schema, &arguments);
        if !faults.is_empty() {
            return Err(Refusal { stage: Stage::Schema, reasons: faults });
        }
        arguments::typed(id, &known.definition.name, arguments)
            .map_err(|reason| Refusal::because(Stage::Schema, reason))
    }
}

impl Tool {
    fn compile(file: &str, text: &str) -> Result<Self, CatalogueError> {
        let definition: ToolDefinition = serde_json::from_str(text).map_err(|error| {
            CatalogueError::Definition { file: file.to_owned(), cause: error.to_string() }
        })?;
        if !arguments::is_implemented(&definition.name) {
            return Err(CatalogueError::Unimplemented { file: file.to_owned(), tool: definition.name });
        }
        let input = compile(file, "inputSchema", &definition.input_schema)?;
        compile(file, "outputSchema", &definition.output_schema)?;
        Ok(Self { definition, input })
    }
}

fn compile(
    file: &str,
    schema: &'static str,
    document: &Map<String, Value>,
) -> Result<Validator, CatalogueError> {
    jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .build(&Value::Object(document.clone()))
        .map_err(|error| CatalogueError::Schema { file: file.to_owned(), schema, cause: error.to_string() })
}

#[cfg(test)]
mod tests;
