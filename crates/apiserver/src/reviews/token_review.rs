//! Token reviews: report the user of a token to servers that accept the same tokens.

use object::{Object, Status};
use serde_json::{Value, json};

use super::user_info;
use crate::scope::WriteScope;

pub async fn review(scope: WriteScope<'_>, review: Object) -> Result<Object, Status> {
    let token = review.str_at(&["spec", "token"]);
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences: Vec<String> =
        review.items(&["spec", "audiences"]).iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let status = match scope.auth.review_token(scope.resources(), token, &audiences).await {
        Ok(Some(found)) => {
            json!({"authenticated": true, "user": user_info(&found.user), "audiences": found.audiences})
        }
        Ok(None) => json!({"user": {}, "error": "invalid bearer token"}),
        Err(reason) => json!({"user": {}, "error": format!("[invalid bearer token, {reason}]")}),
    };
    let mut review = review;
    review.set(&["status"], status);
    Ok(review)
}
