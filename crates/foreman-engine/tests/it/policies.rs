//! How a policy is put together, explained, trusted and written.

use crate::scene::{Scene, at_rest, named, open_block};
use foreman_domain::{Code, Scope};
use foreman_engine::Host;
use foreman_engine::api::{
    AmendRequest, Commands, PolicyQuery, PolicySource, PolicyView, PolicyWhy, RevokeRequest,
    TrustRequest,
};
use foreman_policy::Layer;

const PROJECT: &str =
    "[[egress]]\nhost = \"project.example\"\nport = 443\n[bounds]\nwall = \"1h\"\n";

fn write_project_file(scene: &Scene, text: &str) {
    std::fs::create_dir_all(scene.repo().join(".foreman")).unwrap();
    std::fs::write(scene.repo().join(".foreman/policy.toml"), text).unwrap();
}

async fn trust(scene: &Scene, host: &Host) {
    let shown = TrustRequest {
        repo: scene.repo(),
        expect: None,
    };
    let expect = host.policy_trust(shown).await.unwrap().expect;
    let trusted = TrustRequest {
        repo: scene.repo(),
        expect: Some(expect),
    };
    assert!(host.policy_trust(trusted).await.unwrap().trusted);
}

async fn of_repo(scene: &Scene, host: &Host) -> PolicyView {
    let query = PolicyQuery {
        run: None,
        repo: Some(scene.repo()),
    };
    host.policy_show(query).await.unwrap()
}

#[tokio::test]
async fn a_repositorys_own_file_counts_only_while_exactly_its_content_is_trusted() {
    let scene = Scene::new();
    let host = scene.host().await;
    assert_eq!(of_repo(&scene, &host).await.project_file, "absent");
    write_project_file(&scene, PROJECT);
    let view = of_repo(&scene, &host).await;
    assert_eq!(
        (view.project_file.as_str(), view.policy.egress.len()),
        ("untrusted", 0)
    );
    trust(&scene, &host).await;
    let view = of_repo(&scene, &host).await;
    assert_eq!(
        (view.project_file.as_str(), view.policy.egress.len()),
        ("trusted", 1)
    );
    assert_eq!(view.bounds.wall_seconds, Some(3600));
    write_project_file(&scene, &format!("{PROJECT}# more\n"));
    let view = of_repo(&scene, &host).await;
    assert_eq!(
        (view.project_file.as_str(), view.policy.egress.len()),
        ("changed", 0)
    );
}

#[tokio::test]
async fn trusting_what_has_changed_since_it_was_shown_is_stale() {
    let scene = Scene::new();
    let host = scene.host().await;
    let shown = TrustRequest {
        repo: scene.repo(),
        expect: None,
    };
    assert_eq!(
        host.policy_trust(shown.clone()).await.unwrap_err().code,
        Code::NotFound
    );
    write_project_file(&scene, PROJECT);
    let expect = host.policy_trust(shown).await.unwrap().expect;
    write_project_file(&scene, "[[egress]]\nhost = \"evil.example\"\nport = 443\n");
    let late = TrustRequest {
        repo: scene.repo(),
        expect: Some(expect),
    };
    assert_eq!(host.policy_trust(late).await.unwrap_err().code, Code::Stale);
}

#[tokio::test]
async fn a_link_in_place_of_the_policy_file_is_not_followed() {
    let scene = Scene::new();
    let host = scene.host().await;
    std::fs::create_dir(scene.repo().join(".foreman")).unwrap();
    let outside = scene.dir.path().join("outside.toml");
    std::fs::write(&outside, PROJECT).unwrap();
    std::os::unix::fs::symlink(&outside, scene.repo().join(".foreman/policy.toml")).unwrap();
    let shown = TrustRequest {
        repo: scene.repo(),
        expect: None,
    };
    assert_eq!(
        host.policy_trust(shown).await.unwrap_err().code,
        Code::BadPolicy
    );
}

#[tokio::test]
async fn layers_are_joined_and_the_narrower_bound_wins() {
    let scene = Scene::new();
    let host = scene.host().await;
    write_project_file(&scene, PROJECT);
    trust(&scene, &host).await;
    let mut request = scene.request(&["exit:0"]);
    request.allow = vec!["allowed.example:443".into()];
    request.policy = Some(PolicySource {
        name: "order.toml".into(),
        text: "[[egress]]\nhost = \"order.example\"\nport = 443\n[bounds]\nwall = \"30m\"\n".into(),
    });
    let run = host.run_create(request).await.unwrap().id;
    let query = PolicyQuery {
        run: Some(run.to_string()),
        repo: None,
    };
    let view = host.policy_show(query.clone()).await.unwrap();
    let layers: Vec<_> = view
        .policy
        .egress
        .iter()
        .map(|rule| rule.origin.layer)
        .collect();
    assert_eq!(layers, [Layer::Project, Layer::Order, Layer::Order]);
    assert_eq!(view.bounds.wall_seconds, Some(1800));
    assert_eq!(view.bounds.processes, Some(1024));
    for (destination, verdict) in [
        ("project.example:443", "allowed"),
        ("allowed.example:443", "allowed"),
        ("elsewhere.example:443", "held"),
        ("169.254.169.254:80", "refused"),
    ] {
        let why = PolicyWhy {
            of: query.clone(),
            destination: destination.into(),
        };
        assert_eq!(
            host.policy_why(why).await.unwrap().verdict,
            verdict,
            "{destination}"
        );
    }
    let why = PolicyWhy {
        of: query,
        destination: "no port".into(),
    };
    assert_eq!(host.policy_why(why).await.unwrap_err().code, Code::BadInput);
    at_rest(&host, &run).await;
}

#[tokio::test]
async fn a_project_decision_can_be_written_into_the_repository_and_only_such_a_one() {
    let scene = Scene::new();
    let host = scene.host().await;
    let run = scene
        .start(&host, &["hold:registry.example", "hold:b.example", "wait"])
        .await
        .id;
    let block = open_block(&host, &run).await;
    let decided = host
        .block_amend(AmendRequest {
            limit: None,
            block: block.block.id.to_string(),
            expect: block.expect,
            scope: Some(Scope::Project),
            rule: None,
            confirmed: true,
            expires: None,
            surface: None,
        })
        .await
        .unwrap();
    assert!(!scene.repo().join(".foreman").exists());
    let write = RevokeRequest {
        amendment: decided.amendment.id.clone(),
    };
    let written = host.policy_write(write.clone()).await.unwrap();
    assert!(written.trusted);
    let text = std::fs::read_to_string(scene.repo().join(".foreman/policy.toml")).unwrap();
    assert!(text.contains("registry.example"), "{text}");
    assert_eq!(of_repo(&scene, &host).await.project_file, "trusted");
    // Written twice it is there once.
    assert_eq!(host.policy_write(write).await.unwrap().text, text);
    host.run_stop(named(&run)).await.unwrap();
}

#[tokio::test]
async fn neither_a_run_nor_a_repository_is_no_question() {
    let scene = Scene::new();
    let host = scene.host().await;
    let nothing = host.policy_show(PolicyQuery::default()).await.unwrap_err();
    assert_eq!(nothing.code, Code::Usage);
}
