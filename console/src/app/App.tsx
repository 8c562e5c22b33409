// The routes. Pages are loaded when they are opened.

import { lazy, Suspense } from "react";
import { Route, Switch, useLocation } from "wouter";
import { t } from "../i18n";
import { Overview } from "../pages/Overview";
import { Empty, Loading } from "../ui/parts";
import { Guard } from "./Guard";
import { usePrefs } from "./prefs";
import { SessionGate } from "./session";
import { atManager } from "./nav";
import { Shell } from "./Shell";

const Fleet = lazy(() => import("../pages/Fleet"));
const Clusters = lazy(() => import("../pages/clusters/Clusters"));
const ClusterDetail = lazy(() => import("../pages/clusters/ClusterDetail"));
const Workloads = lazy(() => import("../pages/workloads/Workloads"));
const WorkloadDetail = lazy(() => import("../pages/workloads/WorkloadDetail"));
const Apply = lazy(() => import("../pages/apply/Apply"));
const Policies = lazy(() => import("../pages/policies/Policies"));
const PolicyEditor = lazy(() => import("../pages/policies/PolicyEditor"));
const Failover = lazy(() => import("../pages/Failover"));
const Kinds = lazy(() => import("../pages/resources/Kinds"));
const ResourceList = lazy(() => import("../pages/resources/ResourceList"));
const ResourceDetail = lazy(() => import("../pages/resources/ResourceDetail"));
const Events = lazy(() => import("../pages/Events"));
const Metrics = lazy(() => import("../pages/Metrics"));
const Search = lazy(() => import("../pages/Search"));
const Access = lazy(() => import("../pages/access/Access"));
const Settings = lazy(() => import("../pages/Settings"));
const Audit = lazy(() => import("../pages/Audit"));
const Convert = lazy(() => import("../pages/convert/Convert"));
const CommandLine = lazy(() => import("../pages/shell/Shell"));
const Members = lazy(() => import("../pages/manager/Members"));
const Inventory = lazy(() => import("../pages/manager/Inventory"));
const InventoryCluster = lazy(() => import("../pages/manager/Inventory").then((module) => ({ default: module.InventoryCluster })));
const InstancePage = lazy(() => import("../pages/manager/InstancePage"));
const NewInstance = lazy(() => import("../pages/manager/NewInstance"));
const ImportInstance = lazy(() => import("../pages/manager/ImportInstance"));
const ManagerSearch = lazy(() => import("../pages/manager/ManagerSearch"));
const ManagerAudit = lazy(() => import("../pages/manager/ManagerAudit"));
const Topology = lazy(() => import("../pages/Topology"));

export function App() {
  const { language } = usePrefs();
  return (
    <SessionGate key={language}>
      {(user) => (
        <Shell user={user}>
          <Pages atManager={atManager(user)} ofManager={user.managesInstances === true} />
        </Shell>
      )}
    </SessionGate>
  );
}

function Pages({ atManager, ofManager }: { atManager: boolean; ofManager: boolean }) {
  const [location] = useLocation();
  return (
    <Guard key={location}>
      <Suspense fallback={<Loading />}>
        <Switch>
          <Route path="/" component={atManager ? Fleet : Overview} />
          <Route path="/clusters" component={Clusters} />
          <Route path="/clusters/:name">{({ name }) => <ClusterDetail name={name} />}</Route>
          <Route path="/workloads" component={Workloads} />
          <Route path="/workloads/:slug/:namespace/:name">{(params) => <WorkloadDetail {...params} />}</Route>
          <Route path="/apply" component={Apply} />
          <Route path="/policies" component={Policies} />
          <Route path="/policies/new/:kind">{({ kind }) => <PolicyEditor kind={kind} />}</Route>
          <Route path="/policies/edit/:kind/:name">{({ kind, name }) => <PolicyEditor kind={kind} name={decodeURIComponent(name)} />}</Route>
          <Route path="/policies/edit/:kind/:namespace/:name">{({ kind, namespace, name }) => <PolicyEditor kind={kind} namespace={namespace} name={decodeURIComponent(name)} />}</Route>
          <Route path="/failover" component={Failover} />
          <Route path="/resources" component={Kinds} />
          <Route path="/resources/:slug">{({ slug }) => <ResourceList slug={slug} />}</Route>
          <Route path="/resources/:slug/:name">{({ slug, name }) => <ResourceDetail slug={slug} name={name} />}</Route>
          <Route path="/resources/:slug/:namespace/:name">{(params) => <ResourceDetail {...params} />}</Route>
          <Route path="/events" component={Events} />
          <Route path="/metrics" component={Metrics} />
          <Route path="/search" component={atManager ? ManagerSearch : Search} />
          {atManager && <Route path="/new" component={NewInstance} />}
          {atManager && <Route path="/import" component={ImportInstance} />}
          {atManager && <Route path="/instances/:name">{({ name }) => <InstancePage name={name} />}</Route>}
          {atManager && <Route path="/inventory" component={Inventory} />}
          {atManager && <Route path="/inventory/:name">{({ name }) => <InventoryCluster name={name} />}</Route>}
          <Route path="/access"><Access ofManager={ofManager} /></Route>
          <Route path="/settings"><Settings ofManager={ofManager} /></Route>
          <Route path="/audit" component={atManager ? ManagerAudit : Audit} />
          <Route path="/convert" component={Convert} />
          <Route path="/shell" component={CommandLine} />
          {atManager && <Route path="/members" component={Members} />}
          <Route path="/topology" component={Topology} />
          <Route><Empty title={t("There is no such page")} /></Route>
        </Switch>
      </Suspense>
    </Guard>
  );
}
