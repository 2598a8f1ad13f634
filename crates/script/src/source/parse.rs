//! From the text of a file to code that QuickJS can take, or to a syntax error with its place.
//!
//! JavaScript is only looked at: the text goes on as it was written, so that lines and columns in
//! stack traces are the user's own. TypeScript is printed anew without its types, and the printer
//! keeps a map. Nothing is translated to older JavaScript: the engine knows ES2023 and more.

use std::path::Path;

use oxc_allocator::Allocator;
use oxc_ast::ast::Program;
use oxc_codegen::{Codegen, CodegenOptions, CommentOptions};
use oxc_diagnostics::{OxcDiagnostic, Severity};
use oxc_parser::{ParseOptions, Parser};
use oxc_semantic::{Scoping, SemanticBuilder};
use oxc_span::SourceType;
use oxc_transformer::{TransformOptions, Transformer};

use super::error::{Place, SourceError, SourceErrorKind};
use super::facts::{self, Facts};
use super::hints::{self, Hints};
use super::lacking;
use super::lines::Pair;

/// The parser descends once per level of nesting; code written by a bundler or a generator can be
/// deep. Only the pages that are used cost memory.
const STACK_BYTES: usize = 256 << 20;

/// Deeper code would end the process: a stack that is used up cannot be caught. Every kind of
/// bracket was tried to more than twice this depth.
pub const DEPTH_MAX: usize = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    JavaScript,
    TypeScript,
}

#[derive(Debug)]
pub struct Parsed {
    /// JavaScript; `None` for what the user wrote, unchanged.
    pub code: Option<String>,
    pub facts: Facts,
    /// Says `require` without declaring it.
    pub uses_require: bool,
    /// Empty for JavaScript.
    pub pairs: Vec<Pair>,
    pub hints: Hints,
}

/// Parses on a thread of its own, for the sake of its stack. `file` is the name for messages.
pub fn parse(file: &str, text: &str, language: Language) -> Result<Parsed, SourceError> {
    refuse_depth(file, text)?;
    let parsed = on_stack(|| parse_here(file, text, language)).map_err(|error| {
        let message = format!("{file}: no thread could be started to parse it: {error}");
        SourceError::new(SourceErrorKind::Unreadable, message)
    })?;
    parsed.unwrap_or_else(|| {
        let message = format!("{file}: the parser failed on this file; please report it");
        Err(SourceError::new(SourceErrorKind::Syntax, message))
    })
}

/// `None` inside: it panicked.
fn on_stack<T: Send>(work: impl FnOnce() -> T + Send) -> std::io::Result<Option<T>> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("script parser".to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work)?;
        Ok(thread.join().ok())
    })
}

/// For a second look at what has been parsed before.
pub fn on_deep_stack<T: Send>(work: impl FnOnce() -> Option<T> + Send) -> Option<T> {
    on_stack(work).ok().flatten().flatten()
}

fn parse_here(file: &str, text: &str, language: Language) -> Result<Parsed, SourceError> {
    let allocator = Allocator::default();
    let source_type = match language {
        Language::JavaScript => SourceType::mjs(),
        Language::TypeScript => SourceType::ts().with_module(true),
    };
    let options = ParseOptions {
        parse_regular_expression: true,
        // Allowed in CommonJS; whether this file is that is known only after parsing.
        allow_return_outside_function: true,
        ..ParseOptions::default()
    };
    let parsed = Parser::new(&allocator, text, source_type).with_options(options).parse();
    refuse(file, text, parsed.diagnostics.iter()).map_err(|error| match language {
        Language::JavaScript if is_typescript(text, options) => {
            error.help("these are types of TypeScript: give the file a name that ends in .ts")
        }
        _ => error,
    })?;
    let mut program = parsed.program;

    let checked = SemanticBuilder::new()
        .with_check_syntax_error(true)
        .with_enum_eval(language == Language::TypeScript)
        .build(&program);
    refuse(file, text, checked.diagnostics.iter())?;
    let mut scoping = checked.semantic.into_scoping();
    refuse_lacking(file, text, &program, &scoping)?;
    let is_esm = facts::gather(&program).is_esm;
    let hints = hints::gather(text, &program, &scoping, is_esm);

    let (code, pairs) = match language {
        Language::JavaScript => (None, Vec::new()),
        Language::TypeScript => {
            // A decorator would be passed through to an engine that does not know it.
            refuse_decorators(file, text, &facts::gather(&program))?;
            scoping = strip_types(file, text, &allocator, &mut program, scoping)?;
            let (code, pairs) = print(file, &program);
            (Some(code), pairs)
        }
    };
    let facts = facts::gather(&program);
    refuse_decorators(file, text, &facts)?;
    refuse_mixture(file, text, &facts)?;
    let uses_require = scoping.root_unresolved_references().keys().any(|name| *name == "require");
    Ok(Parsed { code, facts, uses_require, pairs, hints })
}

/// Counts brackets without asking whether they stand in a string. A string with twenty thousand
/// more opening than closing ones is taken for code; that is the price of looking only once.
fn refuse_depth(file: &str, text: &str) -> Result<(), SourceError> {
    let mut depth = 0_usize;
    for (offset, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth > DEPTH_MAX {
            let message = format!("nested more than {DEPTH_MAX} deep");
            let help = "split the file, or read the data with open() and JSON.parse()";
            return Err(refuse_at(file, text, offset as u32, &message, help));
        }
    }
    Ok(())
}

fn is_typescript(text: &str, options: ParseOptions) -> bool {
    let allocator = Allocator::default();
    let source_type = SourceType::ts().with_module(true);
    let parsed = Parser::new(&allocator, text, source_type).with_options(options).parse();
    !parsed.panicked && parsed.diagnostics.is_empty()
}

fn strip_types<'a>(
    file: &str,
    text: &str,
    allocator: &'a Allocator,
    program: &mut Program<'a>,
    scoping: Scoping,
) -> Result<Scoping, SourceError> {
    let options = TransformOptions::default();
    let transformer = Transformer::new(allocator, Path::new(file), &options);
    let transformed = transformer.build_with_scoping(scoping, program);
    refuse(file, text, transformed.diagnostics.iter())?;
    Ok(transformed.scoping)
}

fn print(file: &str, program: &Program<'_>) -> (String, Vec<Pair>) {
    let options = CodegenOptions {
        source_map_path: Some(file.into()),
        comments: CommentOptions::disabled(),
        ..CodegenOptions::default()
    };
    let printed = Codegen::new().with_options(options).build(program);
    let pairs = printed.map.map_or_else(Vec::new, |map| {
        map.get_tokens()
            .filter(|token| token.get_source_id().is_some())
            .map(|token| Pair {
                line: token.get_dst_line(),
                column: token.get_dst_col(),
                original_line: token.get_src_line(),
                original_column: token.get_src_col(),
            })
            .collect()
    });
    (printed.code, pairs)
}

/// Turns the first error of a stage into ours; the others are often its consequences.
fn refuse<'d>(
    file: &str,
    text: &str,
    diagnostics: impl Iterator<Item = &'d OxcDiagnostic>,
) -> Result<(), SourceError> {
    let mut errors = diagnostics.filter(|diagnostic| diagnostic.severity == Severity::Error);
    let Some(first) = errors.next() else {
        return Ok(());
    };
    // "Identifier `a` has already been declared" has two labels; the later is the mistake.
    let offset = first.labels.iter().map(|label| label.offset() as usize).max();
    let more = match errors.count() {
        0 => String::new(),
        1 => " (and 1 more error)".to_owned(),
        count => format!(" (and {count} more errors)"),
    };
    let message = format!("syntax error: {}{more}", first.message);
    let place = Place::at(file, text, offset.unwrap_or(0));
    let help = first.help.as_ref().map(|help| help.to_string());
    Err(SourceError::new(SourceErrorKind::Syntax, message).or_at(Some(place)).maybe_help(help))
}

fn refuse_at(file: &str, text: &str, offset: u32, message: &str, help: &str) -> SourceError {
    SourceError::new(SourceErrorKind::Syntax, message)
        .or_at(Some(Place::at(file, text, offset as usize)))
        .help(help)
}

fn refuse_decorators(file: &str, text: &str, facts: &Facts) -> Result<(), SourceError> {
    match facts.decorator {
        None => Ok(()),
        Some(offset) => Err(refuse_at(
            file,
            text,
            offset,
            "decorators are not supported",
            "call the decorating function yourself after the class",
        )),
    }
}

/// A part of k6's API that is not here, where the text shows that it is called.
fn refuse_lacking(
    file: &str,
    text: &str,
    program: &Program<'_>,
    scoping: &Scoping,
) -> Result<(), SourceError> {
    // Most files name nothing of it, and bundles are large.
    if !crate::lacking::is_named_in(text) {
        return Ok(());
    }
    let Some((offset, lacking)) = lacking::find(program, scoping) else { return Ok(()) };
    let message = format!("`{}` of k6 is not available", lacking.name);
    Err(SourceError::new(SourceErrorKind::Missing, message)
        .or_at(Some(Place::at(file, text, offset as usize)))
        .help(lacking.remedy))
}

/// A file with `import` or `export` has neither `exports` nor a place to return from.
fn refuse_mixture(file: &str, text: &str, facts: &Facts) -> Result<(), SourceError> {
    if !facts.is_esm {
        return Ok(());
    }
    if let Some(offset) = facts.top_level_return {
        let message = "syntax error: `return` outside of a function";
        return Err(refuse_at(file, text, offset, message, "put the code into a function"));
    }
    if let Some(offset) = facts.top_level_exports {
        return Err(refuse_at(
            file,
            text,
            offset,
            "`exports` does not exist in an ES module (this file has import, export or await)",
            "write `export const name = …`, or use require() and exports everywhere in this file",
        ));
    }
    Ok(())
}
