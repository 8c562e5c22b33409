-- What the bundled scripts share: roll-ups of member statuses, reports from members, and readings of conditions.
local kube = require("kube")
local rollup = {}

local TEMPLATE_GENERATION = "resourcetemplate.karmada.io/generation"

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
rollup.reports = reports

local function status_of(object)
  if object.status == nil then
    object.status = {}
  end
  return object.status
end
rollup.status_of = status_of

-- A member is up to date when it has seen its own latest generation, made from the template's latest.
local function is_current(status, generation)
  return (status.resourceTemplateGeneration or 0) == generation
    and (status.generation or 0) == (status.observedGeneration or 0)
end

-- The template's generation counts as observed once every member is up to date. Nobody to wait for: at once.
function rollup.observe(template, items)
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
function rollup.sum(template, items, fields)
  local status = status_of(template)
  for _, field in ipairs(fields) do
    local total = 0
    for _, report in ipairs(reports(items)) do
      total = total + (report.status[field] or 0)
    end
    status[field] = total
  end
end

-- The last text a member reports, or the empty one.
function rollup.latest(template, items, fields)
  local status = status_of(template)
  for _, field in ipairs(fields) do
    local text = ""
    for _, report in ipairs(reports(items)) do
      local value = report.status[field]
      if value ~= nil and value ~= "" then
        text = value
      end
    end
    status[field] = text
  end
end

-- Fields of a member's status, and the generations it stands for.
function rollup.report(observed, fields)
  local status = {}
  if observed == nil or observed.status == nil then
    return status
  end
  for _, field in ipairs(fields) do
    status[field] = observed.status[field]
  end
  local metadata = observed.metadata or {}
  status.generation = metadata.generation
  status.resourceTemplateGeneration = tonumber((metadata.annotations or {})[TEMPLATE_GENERATION])
  return status
end

-- Conditions that say the same become one, its message made of the messages of all clusters.
function rollup.conditions(items)
  local merged = {}
  local by_key = {}
  for _, report in ipairs(reports(items)) do
    for _, condition in ipairs(report.status.conditions or {}) do
      local key = condition.type .. "-" .. condition.status .. "-" .. (condition.reason or "")
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

-- Is there a condition that says all of this?
function rollup.has_condition(object, wanted)
  for _, condition in ipairs((object.status or {}).conditions or {}) do
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

-- What a replicated workload shows when all of it runs the latest version.
function rollup.is_rolled_out(observed)
  local status, spec = observed.status or {}, observed.spec or {}
  local updated = status.updatedReplicas or 0
  return status.observedGeneration == (observed.metadata or {}).generation
    and (spec.replicas == nil or updated >= spec.replicas)
    and (status.availableReplicas or 0) >= updated
end

function rollup.pod_dependencies(template, namespace)
  return kube.getPodDependencies(template or {}, namespace)
end

function rollup.reference(api_version, kind, namespace, name)
  return {apiVersion = api_version, kind = kind, namespace = namespace, name = name}
end

return rollup
