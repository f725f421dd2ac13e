//! The committed OpenAPI document is that of this build.

use std::path::Path;

#[test]
#[expect(clippy::disallowed_methods, reason = "a variable tells the test to write the file")]
fn the_committed_document_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json");
    let made = lastword_server::openapi();
    if std::env::var_os("LASTWORD_WRITE").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(
        made == committed,
        "docs/reference/openapi.json is out of date; run LASTWORD_WRITE=1 cargo test -p lastword-server document"
    );
}

#[test]
fn the_document_is_openapi_3_1_without_dangling_references() {
    let document: serde_json::Value = serde_json::from_str(&lastword_server::openapi()).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(!references.is_empty());
    for reference in references {
        let pointer = reference.strip_prefix('#').expect("a reference within the document");
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn every_operation_has_a_unique_id_and_a_problem_response() {
    let document: serde_json::Value = serde_json::from_str(&lastword_server::openapi()).unwrap();
    let mut names = std::collections::BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{method} {path}: `{name}` is not unique");
            let problem = &operation["responses"]["default"]["content"]["application/problem+json"]["schema"];
            assert_eq!(problem["$ref"], "#/components/schemas/Problem", "{method} {path}");
            assert!(operation["summary"].is_string(), "{method} {path}");
        }
    }
    assert_eq!(names.len(), 42);
}

fn collect(value: &serde_json::Value, references: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            references.extend(fields.get("$ref").and_then(|to| to.as_str()).map(str::to_owned));
            fields.values().for_each(|value| collect(value, references));
        }
        serde_json::Value::Array(items) => items.iter().for_each(|value| collect(value, references)),
        _ => {}
    }
}
