//! How values stand in columns: ids and names as text, times as milliseconds, compound values as JSON.

use rusqlite::Result;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::row::Row;
use crate::ids::{
    AgentId, ApprovalId, AttemptId, ConnectionId, CorrelationId, MessageId, ObjectiveId, ProjectId,
    ProposalId, RuntimeId, SessionId, TaskId, TurnId,
};
use crate::time::Timestamp;

macro_rules! text_columns {
    ($($id:ident),+) => {$(
        impl ToSql for $id {
            fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
                self.as_str().to_sql()
            }
        }

        impl FromSql for $id {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                value.as_str().map(Self::new)
            }
        }
    )+};
}

text_columns!(
    AgentId,
    ApprovalId,
    AttemptId,
    ConnectionId,
    CorrelationId,
    MessageId,
    ObjectiveId,
    ProjectId,
    ProposalId,
    RuntimeId,
    SessionId,
    TaskId,
    TurnId
);

impl ToSql for Timestamp {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        Ok(self.as_millis().into())
    }
}

impl FromSql for Timestamp {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(Self::from_millis)
    }
}

/// A compound value in a text column.
#[derive(Clone, Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> Result<ToSqlOutput<'_>> {
        let text = serde_json::to_string(&self.0)
            .map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
        Ok(text.into())
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?).map(Self).map_err(|e| FromSqlError::Other(e.into()))
    }
}

/// Reads a compound value.
pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> Result<T> {
    row.get::<Json<T>>(column).map(|json| json.0)
}

/// Reads a compound value that may be absent.
pub(super) fn json_or_none<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> Result<Option<T>> {
    Ok(row.get::<Option<Json<T>>>(column)?.map(|json| json.0))
}

/// A plain word in a column that a CHECK guards.
pub(super) fn word<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> Result<T> {
    use serde::de::IntoDeserializer as _;
    use serde::de::value::{Error as WordError, StringDeserializer};

    let text: String = row.get(column)?;
    let words: StringDeserializer<WordError> = text.into_deserializer();
    T::deserialize(words).map_err(|e| {
        rusqlite::Error::FromSqlConversionFailure(
            0,
            rusqlite::types::Type::Text,
            e.to_string().into(),
        )
    })
}

/// A count, which `SQLite` keeps as a signed number.
pub(super) fn count(row: &Row<'_>, column: &str) -> Result<u32> {
    row.get(column)
}
