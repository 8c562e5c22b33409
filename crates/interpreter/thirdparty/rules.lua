-- What the bundled scripts share: how member statuses add up, what members report, and how objects are read.
local kube = require("kube")
local rules = {}

local TEMPLATE_GENERATION = "resourcetemplate.karmada.io/generation"

-- Reading ---------------------------------------------------------------------------------------------------------

-- The value at the end of a path, or nil when the path ends early.
function rules.at(object, ...)
  for _, key in ipairs({...}) do
    if type(object) ~= "table" then
      return nil
    end
    object = object[key]
  end
  return object
end

-- A number, also when it is written as text.
function rules.number(value, default)
  return tonumber(value) or default
end

function rules.is_set(text)
  return text ~= nil and text ~= ""
end

-- The statuses members have reported, each with the name of its cluster.
local function reports(items)
  local found = {}
  for _, item in ipairs(items or {}) do
    if item.status ~= nil then
      found[#found + 1] = {cluster = item.clusterName, status = item.status}
    end
  end
  return found
end
rules.reports = reports

-- The status to write into, made when there is none.
local function status_of(object)
  if object.status == nil then
    object.status = {}
  end
  return object.status
end
rules.status_of = status_of

-- The status of the only member, when there is just one.
function rules.only_status(items)
  if #items == 1 then
    return items[1].status or {}
  end
  return nil
end

-- Members report ----------------------------------------------------------------------------------------------------

-- The named fields of a status.
function rules.pick(observed, fields)
  local status = {}
  for _, field in ipairs(fields) do
    status[field] = rules.at(observed, "status", field)
  end
  return status
end

-- The same with the generations that the status stands for.
function rules.pick_current(observed, fields)
  if rules.at(observed, "status") == nil then
    return {}
  end
  local status = rules.pick(observed, fields)
  status.generation = rules.at(observed, "metadata", "generation")
  status.resourceTemplateGeneration = tonumber(rules.at(observed, "metadata", "annotations", TEMPLATE_GENERATION))
  return status
end

-- Adding up ---------------------------------------------------------------------------------------------------------

-- A member is up to date when it has seen its own latest generation, made from the template's latest.
local function is_current(status, generation)
  return (status.resourceTemplateGeneration or 0) == generation
    and (status.generation or 0) == (status.observedGeneration or 0)
end

-- The template's generation counts as observed once every member is up to date. Nobody to wait for: at once.
function rules.observe(template, items)
  local status = status_of(template)
  local generation = template.metadata.generation or 0
  template.metadata.generation = generation
  local current = 0
  for _, report in ipairs(reports(items)) do
    if is_current(report.status, generation) then
      current = current + 1
    end
  end
  if current == #(items or {}) then
    status.observedGeneration = generation
  else
    status.observedGeneration = status.observedGeneration or 0
  end
end

-- Adds up numbers field by field; what no member reports is zero.
function rules.sum(template, items, fields)
  local status = status_of(template)
  for _, field in ipairs(fields) do
    local total = 0
    for _, report in ipairs(reports(items)) do
      total = total + (report.status[field] or 0)
    end
    status[field] = total
  end
end

-- The same, without fields nobody speaks of: neither a member nor the template.
function rules.sum_reported(template, items, fields)
  local before = {}
  for _, field in ipairs(fields) do
    before[field] = status_of(template)[field]
  end
  rules.sum(template, items, fields)
  for _, field in ipairs(fields) do
    if items ~= nil and before[field] == nil and template.status[field] == 0 then
      template.status[field] = nil
    end
  end
end

-- The last value some member reports, else the given one.
function rules.last(items, field, default)
  local value = default
  for _, report in ipairs(reports(items)) do
    if rules.is_set(report.status[field]) then
      value = report.status[field]
    end
  end
  return value
end

-- The last text of each field, or the empty one.
function rules.latest(template, items, fields)
  local status = status_of(template)
  for _, field in ipairs(fields) do
    status[field] = rules.last(items, field, "")
  end
end

-- The last text of each field, or what the template says already; empty again once no member is left.
function rules.latest_or_kept(template, items, fields)
  local status = status_of(template)
  for _, field in ipairs(fields) do
    if items == nil then
      status[field] = ""
    else
      status[field] = rules.last(items, field, status[field])
    end
  end
end

-- The earliest and the latest of times as Kubernetes writes them, which sort as texts.
function rules.earliest(items, field)
  local found = nil
  for _, report in ipairs(reports(items)) do
    local time = report.status[field]
    if rules.is_set(time) and (found == nil or time < found) then
      found = time
    end
  end
  return found
end

function rules.most_recent(items, field)
  local found = nil
  for _, report in ipairs(reports(items)) do
    local time = report.status[field]
    if rules.is_set(time) and (found == nil or time > found) then
      found = time
    end
  end
  return found
end

function rules.now()
  return os.date("!%Y-%m-%dT%H:%M:%SZ")
end

-- Pods of each role by what became of them. Roles named in advance are always there.
function rules.replica_statuses(items, roles)
  local totals = {}
  for _, role in ipairs(roles) do
    totals[role] = {active = 0, failed = 0, succeeded = 0}
  end
  for _, report in ipairs(reports(items)) do
    for role, pods in pairs(report.status.replicaStatuses or {}) do
      local total = totals[role] or {active = 0, failed = 0, succeeded = 0}
      totals[role] = total
      for field, count in pairs(total) do
        total[field] = count + (pods[field] or 0)
      end
    end
  end
  return totals
end

-- Without what says nothing: empty texts and tables, and zeros where asked.
function rules.without_empty(value, zeros_too)
  if type(value) ~= "table" then
    return value
  end
  local kept = {}
  for key, item in pairs(value) do
    item = rules.without_empty(item, zeros_too)
    local is_zero = zeros_too and (item == 0 or item == "" or item == "0s")
    local is_empty = type(item) == "table" and next(item) == nil
    if not is_zero and not is_empty then
      kept[key] = item
    end
  end
  return kept
end

-- Conditions --------------------------------------------------------------------------------------------------------

-- Conditions that say the same become one, its message made of the messages of all clusters.
function rules.merged_conditions(items)
  local merged, by_key = {}, {}
  for _, report in ipairs(reports(items)) do
    for _, condition in ipairs(report.status.conditions or {}) do
      local key = condition.type .. "\n" .. condition.status .. "\n" .. (condition.reason or "")
      local message = report.cluster .. "=" .. (condition.message or "")
      local known = by_key[key]
      if known == nil then
        condition.message = message
        by_key[key] = condition
        merged[#merged + 1] = condition
      else
        known.message = known.message .. ", " .. message
      end
    end
  end
  return merged
end

-- One condition per value of a field, in the order the values first appear; a later one replaces an earlier one when
-- the function says so.
function rules.chosen_conditions(items, field, is_better)
  local chosen, places = {}, {}
  for _, report in ipairs(reports(items)) do
    for _, condition in ipairs(report.status.conditions or {}) do
      local place = places[condition[field]]
      if place == nil then
        if is_better(condition, nil) then
          chosen[#chosen + 1] = condition
          places[condition[field]] = #chosen
        end
      elseif is_better(condition, chosen[place]) then
        chosen[place] = condition
      end
    end
  end
  return chosen
end

-- All conditions of all members.
function rules.all_conditions(items)
  local all = {}
  for _, report in ipairs(reports(items)) do
    for _, condition in ipairs(report.status.conditions or {}) do
      all[#all + 1] = condition
    end
  end
  return all
end

-- Is there a condition that says all of this?
function rules.has_condition(status, wanted)
  for _, condition in ipairs((status or {}).conditions or {}) do
    local fits = true
    for field, value in pairs(wanted) do
      fits = fits and condition[field] == value
    end
    if fits then
      return true
    end
  end
  return false
end

-- Health ------------------------------------------------------------------------------------------------------------

-- A replicated workload that runs its latest version everywhere.
function rules.is_rolled_out(observed)
  local status, spec = observed.status or {}, observed.spec or {}
  local updated = status.updatedReplicas or 0
  return status.observedGeneration == rules.at(observed, "metadata", "generation")
    and (spec.replicas == nil or updated >= spec.replicas)
    and (status.availableReplicas or 0) >= updated
end

-- A job that has said something, and not that it failed.
function rules.has_not_failed(observed)
  local status = observed.status or {}
  return status.conditions ~= nil and not rules.has_condition(status, {type = "Failed", status = "True"})
end

-- Retention ---------------------------------------------------------------------------------------------------------

-- Somebody in the member may have stopped the work there.
function rules.keep_suspended(desired, observed)
  local suspend = rules.at(observed, "spec", "suspend")
  if suspend ~= nil then
    desired.spec.suspend = suspend
  end
  return desired
end

-- Components --------------------------------------------------------------------------------------------------------

function rules.component(name, replicas, template)
  local requirements = nil
  if template ~= nil then
    requirements = kube.accuratePodRequirements(template)
  end
  return {name = name, replicas = replicas, replicaRequirements = requirements}
end

-- The head and the worker groups of a Ray cluster.
function rules.ray_components(cluster)
  local components = {}
  local head = rules.at(cluster, "headGroupSpec", "template")
  if head ~= nil then
    components[1] = rules.component("ray-head", 1, head)
  end
  for index, group in ipairs(rules.at(cluster, "workerGroupSpecs") or {}) do
    local name = rules.is_set(group.groupName) and group.groupName or "worker-" .. index
    components[#components + 1] = rules.component(name, group.replicas or 0, group.template)
  end
  return components
end

-- A copy that shares nothing with the original: one table may stand in one place only.
function rules.copy(value)
  if type(value) ~= "table" then
    return value
  end
  local copied = {}
  for key, item in pairs(value) do
    copied[key] = rules.copy(item)
  end
  return copied
end

-- Where a pod with these fields may run.
function rules.node_claim(fields)
  local claim = {
    nodeSelector = rules.copy(rules.at(fields, "nodeSelector")),
    tolerations = rules.copy(rules.at(fields, "tolerations")),
    hardNodeAffinity = rules.copy(rules.at(fields, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")),
  }
  if next(claim) ~= nil then
    return claim
  end
  return nil
end

-- Dependencies ------------------------------------------------------------------------------------------------------

-- What the pods of several templates need.
function rules.pod_dependencies(templates, namespace)
  local found = {}
  for _, template in ipairs(templates) do
    for _, reference in ipairs(kube.getPodDependencies(template, namespace or "") or {}) do
      found[#found + 1] = reference
    end
  end
  return found
end

-- Adds a reference to an object of the core group, if it has a name.
function rules.refer(list, kind, namespace, name)
  if rules.is_set(name) then
    list[#list + 1] = {apiVersion = "v1", kind = kind, namespace = namespace, name = name}
  end
end

-- The pod templates of a Ray cluster.
function rules.ray_templates(cluster)
  local templates = {rules.at(cluster, "headGroupSpec", "template")}
  for _, group in ipairs(rules.at(cluster, "workerGroupSpecs") or {}) do
    templates[#templates + 1] = group.template
  end
  return templates
end

return rules
