/** What an option set renders: a text in one object and none in any, or with `refused` why Helm rejects it. */
export interface OptionSet {
  /** A values file, beside the image. */
  readonly values: string;
  readonly shows?: RegExp;
  readonly hides?: RegExp;
  readonly refused?: RegExp;
}

const scope = 'spec: { selector: { app: x }, ports: [{ port: 80 }] }';

/** Sets of options that users combine, by what they are for. Every object that they render goes to a real API server. */
export const optionSets: Readonly<Record<string, OptionSet>> = {
  'nothing but the image': { values: '{}', shows: /image: bottlerocket-update-operator:0\.1\.0$/mu },
  'a pod of helm test that a mesh would keep from ending': {
    values: '{}',
    shows: /helm\.sh\/hook: test\n.*\n {4}linkerd\.io\/inject: disabled$/mu,
  },
  'no image': { values: "image: { repository: '' }", refused: /image\.repository is empty: set it to/u },
  'an image by tag': {
    values: 'image: { tag: v9, pullPolicy: Always }',
    shows: /image: \S+:v9\n +imagePullPolicy: Always/u,
  },
  'an image by digest': {
    values: `image: { repository: registry.example.com:5000/a/b, digest: 'sha256:${'0'.repeat(64)}' }`,
    shows: /image: registry\.example\.com:5000\/a\/b@sha256:0{64}$/mu,
  },
  'a pull secret': { values: 'imagePullSecrets: [{ name: own }]', shows: /imagePullSecrets:\n +- name: own$/mu },
  'a global pull secret': {
    values: 'global: { imagePullSecrets: [{ name: all }] }',
    shows: /imagePullSecrets:\n +- name: all$/mu,
  },
  'pull secrets of both kinds, one of them twice': {
    values: 'imagePullSecrets: [{ name: own }]\nglobal: { imagePullSecrets: [{ name: own }, { name: all }] }',
    shows: /imagePullSecrets:\n +- name: own\n +- name: all\n(?! +- name)/u,
  },
  'a global section of another chart': { values: 'global: { region: x }', hides: /region/u },
  'a condition of a chart around it': { values: 'enabled: true' },
  'common labels': { values: 'commonLabels: { cost: a }', shows: /kind: Pod\nmetadata:(?:\n .*)*\n {4}cost: a$/mu },
  'common labels on pods': {
    values: 'commonLabels: { cost: a }',
    shows: /template:\n {4}metadata:\n {6}labels:\n(?: {8}.*\n)* {8}cost: a$/mu,
  },
  'common labels on definitions': {
    values: 'commonLabels: { cost: a }',
    shows: /name: brupopconfigs\.brupop\.bottlerocket\.aws\n(?: {2}.*\n)* {2}labels:\n {4}cost: a$/mu,
  },
  'a common label that a pod has already': {
    values: 'commonLabels: { cost: a }\nagent: { podLabels: { cost: agents } }',
    shows: /cost: agents$/mu,
  },
  'a common label of the chart itself': {
    values: 'commonLabels: { app.kubernetes.io/version: other }',
    shows: /kind: DaemonSet\nmetadata:(?:\n .*)*app\.kubernetes\.io\/version: 0\.1\.0/u,
  },
  'common annotations': {
    values: 'commonAnnotations: { example.com/owner: a }',
    shows: /kind: DaemonSet\nmetadata:(?:\n {2}.*)*\n {2}annotations:\n {4}example\.com\/owner: a$/mu,
  },
  'common annotations beside those that keep definitions': {
    values: 'commonAnnotations: { example.com/owner: a }',
    shows: /helm\.sh\/resource-policy: keep\n(?: {4}.*\n)* {4}example\.com\/owner: a$/mu,
  },
  'common annotations that would no longer keep definitions': {
    values: 'commonAnnotations: { argocd.argoproj.io/sync-options: ServerSideApply=true }',
    hides: /kind: CustomResourceDefinition\nmetadata:(?:\n .*)*ServerSideApply=true/u,
  },
  'no definitions': { values: 'crds: { enabled: false }', hides: /^kind: CustomResourceDefinition$/mu },
  'no definitions, with common labels': {
    values: 'crds: { enabled: false }\ncommonLabels: { cost: a }',
    hides: /^kind: CustomResourceDefinition$/mu,
  },
  'an extra object': {
    values: `extraObjects: [{ apiVersion: v1, kind: Service, metadata: { name: more }, ${scope} }]`,
    shows: /kind: Service\nmetadata:\n {2}name: more$/mu,
  },
  'an extra object with templates': {
    values: "extraObjects: [{ apiVersion: v1, kind: ConfigMap, metadata: { name: '{{ .Release.Name }}-more' } }]",
    shows: /name: '?brupop-more'?$/mu,
  },
  'extra objects as texts': {
    values: `extraObjects:\n  - |\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: { name: {{ .Release.Name }}-a }\n  - |\n    apiVersion: v1\n    kind: ConfigMap\n    metadata: { name: {{ .Release.Name }}-b }`,
    shows: /name: brupop-b \}/u,
  },
  'a namespace of the agents as an extra object': {
    values: 'extraObjects: [{ apiVersion: v1, kind: Namespace, metadata: { name: more } }]',
    shows: /kind: Namespace$/mu,
  },
  'no former versions': { values: 'revisionHistoryLimit: 0', shows: /revisionHistoryLimit: 0$/mu },
  'logs for people': { values: 'logFormat: text\nlogLevel: debug', shows: /value: text$/mu },
  'another health port': { values: 'healthPort: 18080', shows: /containerPort: 18080$/mu },
  'a certificate of cert-manager': { values: 'tls: { mode: cert-manager }', shows: /^kind: Issuer$/mu },
  'a certificate of the user': {
    values: 'tls: { mode: provided }',
    hides: /resources: \[secrets\]|resourceNames: \["brupop-ca"\]/u,
  },
  'other names of the certificate': {
    values: 'tls: { secretName: serving, caConfigMapName: authority }',
    shows: /name: "authority"/u,
  },
  'drains with force': { values: 'drain: { allowForce: true }', shows: /DRAIN_ALLOW_FORCE/u },
  'no admission policies': { values: 'admissionPolicies: { enabled: false }', hides: /ValidatingAdmissionPolicy/u },
  'metadata for Nodes': {
    values: 'nodeMetadata: { domains: [example.com, pool] }',
    shows: /\['example\.com', 'pool'\]/u,
  },
  'every setting of the hosts': { values: "hostSettings: { allowed: ['*'] }", shows: /\*/u },
  dependents: {
    values: 'dependents: { targets: [{ kind: Deployment, namespace: kube-system, name: autoscaler }] }',
    shows: /helm\.sh\/hook: pre-delete/u,
  },
  'a dependent in the namespace of the release': {
    values: 'dependents: { targets: [{ kind: Deployment, namespace: brupop-bottlerocket-aws, name: a }] }',
    refused: /cannot scale itself back/u,
  },
  checks: { values: 'checks: { enabled: true, namespace: update-checks }', shows: /CHECKS_NAMESPACE/u },
  'checks in the namespace of the release': {
    values: 'checks: { enabled: true, namespace: brupop-bottlerocket-aws }',
    refused: /checks\.namespace: expected another namespace/u,
  },
  'checks in the namespace of the agents': {
    values: 'checks: { enabled: true, namespace: brupop-agents }\nagent: { namespace: brupop-agents }',
    refused: /checks\.namespace: expected another namespace/u,
  },
  'queries of Prometheus': {
    values:
      "checks: { prometheus: { url: 'https://prometheus:9090', secretName: token } }\nnetworkPolicy: { enabled: true }",
    shows: /PROMETHEUS_CREDENTIALS/u,
  },
  recovery: { values: 'recovery: { namespaces: [shop, web] }', shows: /value: "shop,web"/u },
  notifications: { values: 'notifications: { secrets: [slack, events] }', shows: /value: "slack,events"/u },
  'notifications with a Secret of the operator': {
    values: 'notifications: { secrets: [brupop-ca] }',
    refused: /notifications\.secrets: expected Secrets of receivers, found one with a private key/u,
  },
  'agents in a namespace of their own': {
    values: 'agent: { namespace: brupop-agents }',
    shows: /APISERVER_HOST\n +value: "brupop-apiserver\.brupop-bottlerocket-aws\.svc"/u,
  },
  'agents in a namespace of their own, with a cluster IP': {
    values: 'agent: { namespace: brupop-agents }\napiserver: { service: { clusterIP: 10.96.200.20 } }',
    shows: /APISERVER_HOST\n +value: "10\.96\.200\.20"/u,
  },
  'agents in a namespace of their own, with network policies': {
    values: 'agent: { namespace: brupop-agents }\nnetworkPolicy: { enabled: true }',
    shows: /port: 53/u,
  },
  'agents in a namespace of their own, with network policies and a cluster IP': {
    values:
      'agent: { namespace: brupop-agents }\nnetworkPolicy: { enabled: true }\napiserver: { service: { clusterIP: 10.96.200.21 } }',
    hides: /port: 53/u,
  },
  'agents in a namespace of their own, in the host network': {
    values: 'agent: { namespace: brupop-agents, hostNetwork: true }',
    shows: /dnsPolicy: ClusterFirstWithHostNet$/mu,
  },
  'agents in a namespace of their own, with a certificate of cert-manager': {
    values: 'agent: { namespace: brupop-agents }\ntls: { mode: cert-manager }',
    shows: /name: brupop-controller-agents\n {2}namespace: "brupop-agents"/u,
  },
  'agents in a namespace of their own, with a certificate of the user': {
    values: 'agent: { namespace: brupop-agents }\ntls: { mode: provided }',
    hides: /resourceNames: \["brupop-ca"\]/u,
  },
  'the namespace of the release for the agents': {
    values: 'agent: { namespace: brupop-bottlerocket-aws }',
    shows: /value: "\$\(BRUPOP_APISERVER_SERVICE_HOST\)"/u,
  },
  'agents in the host network': { values: 'agent: { hostNetwork: true }', shows: /hostNetwork: true$/mu },
  'agents as root': {
    values: 'agent: { runAsUser: 0, runAsGroup: 0, seLinuxType: super_t }',
    shows: /runAsNonRoot: false/u,
  },
  'agents with another socket': { values: 'agent: { hostSocketPath: /run/b.sock }', shows: /path: \/run\/b\.sock/u },
  'a runtime class for each': {
    values: 'agent: { runtimeClassName: a }\ncontroller: { runtimeClassName: b }\napiserver: { runtimeClassName: c }',
    shows: /runtimeClassName: "c"/u,
  },
  'a DNS policy': { values: 'controller: { dnsPolicy: Default }', shows: /dnsPolicy: Default$/mu },
  'a DNS configuration': {
    values:
      "apiserver: { dnsPolicy: None, dnsConfig: { nameservers: [10.0.0.53], options: [{ name: ndots, value: '2' }] } }",
    shows: /nameservers:\n +- 10\.0\.0\.53/u,
  },
  'no controllers, for a takeover': { values: 'controller: { enabled: false }', shows: /replicas: 0$/mu },
  'one replica of each': {
    values: 'controller: { replicas: 1 }\napiserver: { replicas: 1, podDisruptionBudget: { enabled: false } }',
    hides: /kind: PodDisruptionBudget/u,
  },
  'disruption budgets for both': {
    values: 'controller: { podDisruptionBudget: { enabled: true, maxUnavailable: 50% } }',
    shows: /maxUnavailable: 50%$/mu,
  },
  'labels, annotations and accounts of each': {
    values: ['agent', 'controller', 'apiserver']
      .map((name) => `${name}: { podLabels: { a: b }, podAnnotations: { c: d }, serviceAccountAnnotations: { e: f } }`)
      .join('\n'),
    shows: /kind: ServiceAccount\nmetadata:(?:\n .*)*\n {4}e: f$/mu,
  },
  'further variables, volumes and mounts': {
    values: ['agent', 'controller', 'apiserver']
      .map(
        (name) =>
          `${name}: { extraEnv: [{ name: A, value: b }], extraVolumes: [{ name: v, emptyDir: {} }], extraVolumeMounts: [{ name: v, mountPath: /v }] }`,
      )
      .join('\n'),
    shows: /mountPath: \/v$/mu,
  },
  'API servers on nodes of their own': {
    values:
      'apiserver: { nodeSelector: { node-restriction.kubernetes.io/brupop: apart }, tolerations: [{ operator: Exists }] }',
    shows: /node-restriction\.kubernetes\.io\/brupop: apart/u,
  },
  'no placement and no priority': {
    values: ['controller', 'apiserver']
      .map(
        (name) =>
          `${name}: { affinity: null, topologySpreadConstraints: null, nodeSelector: null, priorityClassName: '' }`,
      )
      .join('\n'),
    hides: /topologySpreadConstraints/u,
  },
  'a dual-stack Service': {
    values: 'apiserver: { service: { ipFamilyPolicy: PreferDualStack, ipFamilies: [IPv4] } }',
    shows: /ipFamilyPolicy: PreferDualStack/u,
  },
  'Services for metrics': {
    values: "metrics: { services: { enabled: true, annotations: { prometheus.io/scrape: 'true' } } }",
    shows: /prometheus\.io\/scrape: "true"/u,
  },
  'a ServiceMonitor': {
    values:
      'metrics: { serviceMonitor: { enabled: true, labels: { release: a }, annotations: { b: c }, interval: 1m, scrapeTimeout: 5s } }',
    shows: /interval: 1m\n +scrapeTimeout: 5s$/mu,
  },
  'a ServiceMonitor with relabelings': {
    values:
      'metrics: { serviceMonitor: { enabled: true, relabelings: [{ targetLabel: cluster, replacement: a }], metricRelabelings: [{ action: labeldrop, regex: pod }] } }',
    shows: /metricRelabelings:\n +- action: labeldrop/u,
  },
  'a PodMonitor': {
    values:
      'metrics: { podMonitor: { enabled: true, labels: { release: a }, annotations: { b: c }, scrapeTimeout: 5s } }',
    shows: /kind: PodMonitor(?:\n.*)*scrapeTimeout: 5s$/mu,
  },
  'a PodMonitor that Prometheus selects by a label that the chart has as well': {
    values: 'metrics: { podMonitor: { enabled: true, labels: { app.kubernetes.io/instance: prometheus } } }',
    shows: /kind: PodMonitor\nmetadata:(?:\n .*)*app\.kubernetes\.io\/instance: prometheus$/mu,
  },
  'a PodMonitor with relabelings': {
    values:
      'metrics: { podMonitor: { enabled: true, relabelings: [{ action: hashmod, modulus: 2, targetLabel: shard }] } }',
    shows: /modulus: 2/u,
  },
  'both monitors': {
    values: 'metrics: { podMonitor: { enabled: true }, serviceMonitor: { enabled: true } }',
    refused: /metrics: expected serviceMonitor or podMonitor, found both enabled/u,
  },
  dashboards: {
    values: 'dashboards: { enabled: true, annotations: { grafana_folder: a } }',
    shows: /grafana_folder: a/u,
  },
  alerts: { values: 'alerts: { enabled: true, labels: { release: a } }', shows: /alert: BrupopRolloutLate$/mu },
  'alerts but for two': {
    values: 'alerts: { enabled: true, disabled: [BrupopRolloutLate, BrupopNodeStuck] }',
    shows: /alert: BrupopNoLeader$/mu,
    hides: /BrupopRolloutLate|BrupopNodeStuck/u,
  },
  'alerts but for one that there is not': {
    values: 'alerts: { enabled: true, disabled: [BrupopNoSuch] }',
    refused: /alerts\.disabled: expected alerts of files\/alerts\.yaml, found BrupopNoSuch/u,
  },
  'alerts with further labels': {
    values: 'alerts: { enabled: true, additionalRuleLabels: { team: a, severity: none } }',
    shows: /severity: critical\n +team: a$/mu,
    hides: /severity: none/u,
  },
  'alerts with a runbook of the user': {
    values: 'alerts: { enabled: true, runbookUrl: https://wiki.example.com/a }',
    shows: /runbook_url: https:\/\/wiki\.example\.com\/a#/u,
  },
  'network policies': { values: 'networkPolicy: { enabled: true }', shows: /name: brupop-agent$/mu },
  'network policies with all that they may name': {
    values:
      'networkPolicy: { enabled: true, kubernetesCIDRs: [10.0.0.0/8], kubernetesPorts: [6443], metricsFrom: [{ podSelector: { matchLabels: { app: prometheus } } }] }',
    shows: /name: brupop-metrics$/mu,
  },
  'network policies for agents in the host network': {
    values: 'networkPolicy: { enabled: true, nodeCIDRs: [10.0.0.0/8] }\nagent: { hostNetwork: true }',
    shows: /cidr: "10\.0\.0\.0\/8"/u,
  },
  'a flow schema': { values: 'flowSchema: { enabled: true, matchingPrecedence: 500 }', shows: /kind: FlowSchema/u },
  'everything that watches it': {
    values:
      'metrics: { serviceMonitor: { enabled: true } }\nalerts: { enabled: true }\ndashboards: { enabled: true }\ncommonLabels: { a: b }\ncommonAnnotations: { c: d }',
    shows: /kind: PrometheusRule/u,
  },
};
