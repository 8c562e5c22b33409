"""Makes up cases for the scheduler: clusters, a binding and its status, one JSON object per line.

    python3 cases.py COUNT [SEED [CLUSTERS_MAX]] | go run . > cases.jsonl
"""

import json, random, sys
random.seed(int(sys.argv[2]) if len(sys.argv)>2 else 7)
N=int(sys.argv[1])
def cluster(i):
    n=f"m{i}"
    c={"metadata":{"name":n,"labels":{"tier":random.choice(["gold","tin"])}},"spec":{},"status":{}}
    if random.random()<.8: c["spec"]["region"]=random.choice(["r1","r2","r3","r4"])
    if random.random()<.8: c["spec"]["provider"]=random.choice(["p1","p2"])
    if random.random()<.8: c["spec"]["zones"]=random.sample(["z1","z2","z3"],random.randint(1,2))
    if random.random()<.15: c["spec"]["taints"]=[{"key":"k","effect":random.choice(["NoSchedule","NoExecute","PreferNoSchedule"])}]
    if random.random()<.05: c["metadata"]["deletionTimestamp"]="2026-01-01T00:00:00Z"
    if random.random()<.9: c["status"]["apiEnablements"]=[{"groupVersion":"apps/v1","resources":[{"name":"deployments","kind":"Deployment"}]}]
    if random.random()<.95:
        al={"pods":str(random.randint(0,60)),"cpu":str(random.randint(0,30)),"memory":f"{random.randint(0,64)}Gi"}
        s={"allocatable":al}
        if random.random()<.6: s["allocated"]={"pods":str(random.randint(0,10)),"cpu":f"{random.randint(0,9000)}m","memory":f"{random.randint(0,9)}Gi"}
        if random.random()<.3: s["allocating"]={"pods":str(random.randint(0,5)),"cpu":f"{random.randint(0,900)}m"}
        if random.random()<.25:
            c["spec"]["resourceModels"]=[
              {"grade":0,"ranges":[{"name":"cpu","min":"0","max":"1"},{"name":"memory","min":"0","max":"4Gi"}]},
              {"grade":1,"ranges":[{"name":"cpu","min":"1","max":"2"},{"name":"memory","min":"4Gi","max":"16Gi"}]},
              {"grade":2,"ranges":[{"name":"cpu","min":"4","max":"8"},{"name":"memory","min":"16Gi","max":"32Gi"}]}]
            s["allocatableModelings"]=[{"grade":g,"count":random.randint(0,6)} for g in range(3)]
        c["status"]["resourceSummary"]=s
    return c
def names(cs): return [c["metadata"]["name"] for c in cs]
def affinity(cs):
    r=random.random(); a={}
    if r<.3: a["clusterNames"]=random.sample(names(cs),random.randint(1,len(cs)))
    elif r<.5: a["labelSelector"]={"matchLabels":{"tier":random.choice(["gold","tin"])}}
    elif r<.6: a["fieldSelector"]={"matchExpressions":[{"key":random.choice(["region","provider","zone"]),"operator":random.choice(["In","NotIn"]),"values":random.sample(["r1","r2","p1","z1","z2"],2)}]}
    elif r<.75: a["exclude"]=random.sample(names(cs),1)
    return a
def strategy(cs):
    r=random.random()
    if r<.12: return None
    if r<.25: return {"replicaSchedulingType":"Duplicated"}
    if r<.5: return {"replicaSchedulingType":"Divided","replicaDivisionPreference":"Weighted","weightPreference":{"dynamicWeight":"AvailableReplicas"}}
    if r<.75: return {"replicaSchedulingType":"Divided","replicaDivisionPreference":"Aggregated"}
    w={"replicaSchedulingType":"Divided","replicaDivisionPreference":"Weighted"}
    if r<.95:
        w["weightPreference"]={"staticWeightList":[{"targetCluster":random.choice([{"clusterNames":random.sample(names(cs),random.randint(1,min(3,len(cs))))},{"labelSelector":{"matchLabels":{"tier":random.choice(["gold","tin"])}}}]),"weight":random.randint(1,5)} for _ in range(random.randint(1,4))]}
    elif r<.97: w["weightPreference"]={}
    return w
def constraints():
    r=random.random(); out=[]
    if r<.45: return out
    if r<.7: out.append(("cluster",))
    elif r<.92: out+= [("region",),("cluster",)]
    elif r<.96: out+= [("provider",),("cluster",)]
    else: out+= [("zone",),("region",),("cluster",)]
    res=[]
    for (f,) in out:
        mn=random.randint(1,3); mx=mn+random.randint(0,3)
        res.append({"spreadByField":f,"minGroups":mn,"maxGroups":mx})
    return res
for k in range(N):
    cs=[cluster(i) for i in range(1,random.randint(2,int(sys.argv[3]) if len(sys.argv)>3 else 11))]
    p={}
    status={}
    r=random.random()
    if r<.5: p["clusterAffinity"]=affinity(cs)
    elif r<.75:
        t={"affinityName":"g"}; t.update(affinity(cs))
        if random.random()<.7:
            t["overflowAffinities"]=[dict(affinityName=f"o{i}",**affinity(cs)) for i in range(random.randint(0,2))]
        p["clusterAffinities"]=[t]; status["schedulerObservingAffinityName"]="g"
    if random.random()<.3: p["clusterTolerations"]=[{"key":"k","operator":"Exists"}]
    s=strategy(cs)
    if s: p["replicaScheduling"]=s
    c=constraints()
    if c: p["spreadConstraints"]=c
    spec={"resource":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"d","name":"web","uid":random.choice(["","4858ca61-3ff8-4095-8267-f3d059d8074c","d43fdeeb-d750-4e2b-bee3-64eb94534f4c"])},"placement":p}
    if random.random()<.93: spec["replicas"]=random.choice([1,2,3,5,8,13,30,70])
    if random.random()<.9:
        rr={}
        if random.random()<.7: rr["cpu"]=random.choice(["100m","500m","1","1500m"])
        if random.random()<.5: rr["memory"]=random.choice(["128Mi","1Gi","3Gi"])
        spec["replicaRequirements"]={"resourceRequest":rr} if rr else {}
    if random.random()<.5:
        spec["clusters"]=[{"name":n,"replicas":random.randint(0,12)} for n in random.sample(names(cs),random.randint(1,len(cs)))]
    if random.random()<.15: spec["gracefulEvictionTasks"]=[{"fromCluster":random.choice(names(cs)),"reason":"x","producer":"y"}]
    if random.random()<.2:
        spec["rescheduleTriggeredAt"]="2026-01-02T00:00:00Z"; status["lastScheduledTime"]=random.choice(["2026-01-01T00:00:00Z","2026-01-03T00:00:00Z"])
    print(json.dumps({"clusters":cs,"spec":spec,"status":status},separators=(",",":")))
