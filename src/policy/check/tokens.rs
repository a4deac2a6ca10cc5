//! Limits that must hold before the parser may see a file: its recursion has no bound of its own in calls, lists
//! and operators, and it takes twice as long for each level of lists and objects.
//!
//! Read with the engine's own lexer, so that both see the same tokens.

use std::error::Error;

use regorus::unstable::{Lexer, Source, TokenKind};

use crate::policy::error::Problem;

/// Levels of lists, objects and sets. 16 levels in turn take the parser seconds.
const MAX_BRACKETS: usize = 10;
/// Levels of parentheses: calls in calls.
const MAX_PARENTHESES: usize = 20;
/// Operators in one expression. Each is one level of the tree.
const MAX_OPERATORS: usize = 100;
/// Parts of one reference: names, indices, calls.
const MAX_PARTS: usize = 32;
/// A bracket at depth n costs 2^n. Enough for 1,000 brackets at the full depth, and for many more that are
/// not so deep.
const MAX_COST: u64 = 1 << 20;

/// Words that begin something new. `in` is an operator, and `contains` is a function too.
const KEYWORDS: [&str; 10] =
    ["as", "default", "else", "every", "if", "import", "not", "package", "some", "with"];

/// Where a limit is exceeded: the line, and the limit.
pub(super) enum Refused {
    At(u32, Problem),
    /// The engine's lexer fails, as its parser would.
    Lexer(Box<dyn Error + Send + Sync>),
}

/// A token's place, for comparing with what the parser made of the file.
pub(super) struct Place {
    pub(super) start: u32,
    pub(super) line: u32,
    pub(super) text: String,
}

/// The tokens of a file within the limits.
pub(super) fn scan(source: &Source) -> Result<Vec<Place>, Refused> {
    let mut lexer = Lexer::new(source);
    let mut scan = Scan::new();
    let mut places = Vec::new();
    loop {
        let token = lexer.next_token().map_err(|error| Refused::Lexer(error.into()))?;
        let span = &token.1;
        if token.0 == TokenKind::Eof {
            // The engine ends a file where its lexer does. That must be where the text ends.
            return if span.start as usize == source.contents().len() {
                Ok(places)
            } else {
                Err(Refused::At(span.line, Problem::Unread("the rest of the file".to_owned())))
            };
        }
        let text = span.text();
        scan.token(&token.0, text, span.start, span.end)
            .map_err(|problem| Refused::At(span.line, problem))?;
        places.push(Place { start: span.start, line: span.line, text: text.to_owned() });
    }
}

/// The expression at hand, inside one pair of brackets.
#[derive(Default)]
struct Level {
    is_parenthesis: bool,
    operators: usize,
    parts: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Previous {
    /// Something after which an operator is a binary one.
    Operand,
    /// A dot of a reference: what follows is a name, whatever it is.
    Dot,
    Other,
}

struct Scan {
    outer: Vec<Level>,
    level: Level,
    brackets: usize,
    parentheses: usize,
    cost: u64,
    previous: Previous,
    previous_end: u32,
}

impl Scan {
    fn new() -> Self {
        Self {
            outer: Vec::new(),
            level: Level::default(),
            brackets: 0,
            parentheses: 0,
            cost: 0,
            previous: Previous::Other,
            previous_end: 0,
        }
    }

    fn token(&mut self, kind: &TokenKind, text: &str, start: u32, end: u32) -> Result<(), Problem> {
        self.previous = match kind {
            TokenKind::Ident if self.previous == Previous::Dot => Previous::Operand,
            TokenKind::Ident if text == "set(" => {
                self.operand();
                self.open("(")?;
                Previous::Other
            }
            TokenKind::Ident if text == "in" => self.operator()?,
            TokenKind::Ident if text == "contains" => Previous::Other,
            TokenKind::Ident if KEYWORDS.contains(&text) => {
                self.restart();
                Previous::Other
            }
            // A minus that the lexer took for a number's sign.
            TokenKind::Number if text.starts_with('-') && self.previous == Previous::Operand => {
                self.operator()?;
                Previous::Operand
            }
            TokenKind::Ident | TokenKind::String | TokenKind::RawString | TokenKind::Number => {
                self.operand();
                Previous::Operand
            }
            TokenKind::Symbol | TokenKind::Eof => self.symbol(text, start)?,
        };
        self.previous_end = end;
        Ok(())
    }

    fn symbol(&mut self, text: &str, start: u32) -> Result<Previous, Problem> {
        let after_operand = self.previous == Previous::Operand;
        match text {
            "(" if after_operand => self.part()?,
            "[" if after_operand && self.previous_end == start => self.part()?,
            "." => self.part()?,
            "[" | "{" if after_operand => self.restart(),
            "," | ";" => self.restart(),
            "-" if !after_operand => return Err(Problem::Minus),
            "(" | "[" | "{" | ")" | "]" | "}" => {}
            _ => {
                self.operator()?;
            }
        }
        match text {
            "(" | "[" | "{" => self.open(text)?,
            ")" | "]" | "}" => {
                self.close();
                return Ok(Previous::Operand);
            }
            "." => return Ok(Previous::Dot),
            _ => {}
        }
        Ok(Previous::Other)
    }

    /// An operand right after another begins a statement or rule of its own.
    fn operand(&mut self) {
        if self.previous == Previous::Operand {
            self.restart();
        }
        self.level.parts = 0;
    }

    fn restart(&mut self) {
        self.level.operators = 0;
        self.level.parts = 0;
    }

    fn operator(&mut self) -> Result<Previous, Problem> {
        self.level.parts = 0;
        self.level.operators = self.level.operators.saturating_add(1);
        within(self.level.operators, MAX_OPERATORS, "has operators in one expression")?;
        Ok(Previous::Other)
    }

    fn part(&mut self) -> Result<(), Problem> {
        self.level.parts = self.level.parts.saturating_add(1);
        within(self.level.parts, MAX_PARTS, "has parts in one reference")
    }

    fn open(&mut self, bracket: &str) -> Result<(), Problem> {
        let is_parenthesis = bracket == "(";
        if is_parenthesis {
            self.parentheses = self.parentheses.saturating_add(1);
            within(self.parentheses, MAX_PARENTHESES, "nests parentheses")?;
        } else {
            self.brackets = self.brackets.saturating_add(1);
            within(self.brackets, MAX_BRACKETS, "nests brackets")?;
            self.cost = self.cost.saturating_add(1 << self.brackets);
            if self.cost > MAX_COST {
                return Err(Problem::TooDeep {
                    what: "too often nests brackets nearly",
                    limit: MAX_BRACKETS,
                });
            }
        }
        self.outer.push(std::mem::take(&mut self.level));
        self.level.is_parenthesis = is_parenthesis;
        Ok(())
    }

    fn close(&mut self) {
        // What does not match fails in the parser.
        if let Some(outer) = self.outer.pop() {
            let depth = if self.level.is_parenthesis { &mut self.parentheses } else { &mut self.brackets };
            *depth = depth.saturating_sub(1);
            self.level = outer;
        }
    }
}

fn within(count: usize, limit: usize, what: &'static str) -> Result<(), Problem> {
    if count > limit { Err(Problem::TooDeep { what, limit }) } else { Ok(()) }
}
