//! Commands that break the laws, each in its own ways.

use cortex_lib::api::{
    Access, Catalogue, Command, CommandDef, Effect, Granted, Tool, ToolDef, present,
};
use cortex_lib::error::{Code, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

static TOOLS: [ToolDef; 2] = [ToolDef::of::<Sloppy>(), ToolDef::of::<Forked>()];

static OPERATOR: [CommandDef; 2] = [CommandDef::of::<Sloppy>(), CommandDef::of::<Forgetful>()];

pub const CATALOGUE: Catalogue = Catalogue { tools: &TOOLS, operator: &OPERATOR };

pub static LIBERAL: CommandDef = CommandDef::of::<Liberal>();
pub static FORGETFUL: CommandDef = CommandDef::of::<Forgetful>();

/// Declares a command around what is wrong with it.
macro_rules! broken {
    ($name:ident = $wire:literal, $output:ty, $access:ident, $errors:expr) => {
        impl Command for $name {
            type Output = $output;
            const NAME: &'static str = $wire;
            const ACCESS: Access = Access::$access;
            const EFFECT: Effect = Effect::Writes;
            const ERRORS: &'static [Code] = $errors;

            async fn call(self, _: Granted<'_>) -> Result<$output> {
                Ok(Default::default())
            }
        }

        impl Tool for $name {}
    };
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
struct Sloppy {
    undescribed: u8,
    /// See [`Sloppy`].
    linked: u8,
}
broken!(Sloppy = "Sloppy", u8, EVERYONE, &[Code::Defect, Code::TaskNotFound, Code::TaskNotFound]);

/// Has two forms.
/// Cost: reads only. Next: `dance`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Forked {
    /// One.
    One {},
    /// Two.
    Two {},
}
broken!(Forked = "forked", Empty, USER, &[]);

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
struct Empty {}

/// Writes `null` for what was left out.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Forgetful {
    /// Has a meaning that nobody tells.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Option<String>", extend("x-nullable" = true))]
    #[expect(clippy::option_option, reason = "absent, null and a value are three things")]
    model: Option<Option<String>>,
}
broken!(Forgetful = "forgetful", Empty, SESSIONS_TOO, &[]);

/// Its schema admits what serde refuses.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Liberal {
    /// A text that is a number.
    #[schemars(with = "String")]
    port: std::num::NonZeroU16,
}
broken!(Liberal = "liberal", Empty, USER, &[]);
