package spike
import ("testing";"context";"fmt";"time";"os"
"rmreplay/internal/workload";"rmreplay/internal/workload/session";"rmreplay/internal/replay";"rmreplay/internal/rm";"rmreplay/internal/rm/sim";"rmreplay/internal/rm/sim/policy";"rmreplay/internal/hpc")
type rec struct { ix map[string]int; submit, start, end []hpc.Time; rej []bool; n int}
func (r *rec) Job(j *hpc.Job) error {return nil}
func (r *rec) Event(e rm.Event) error { i:=r.ix[e.Job]; switch e.Kind {case rm.Accepted: r.submit[i]=e.At; case rm.Refused: r.submit[i]=e.At; r.rej[i]=true; case rm.Started: r.start[i]=e.At; case rm.Ended: r.end[i]=e.At}; return nil}
func TestSpike(t *testing.T) {
 t0:=time.Now()
 w,err:=workload.Open(os.Getenv("LOG")); if err!=nil{t.Fatal(err)}
 procs:=w.MachineProcessors
 fmt.Println("read",time.Since(t0), len(w.Jobs), procs, w.Rules)
 for _,d:=range []session.Delimitation{{session.Arrival,0},{session.Arrival,time.Hour}} {
  t0=time.Now()
  s,err:=session.New(w,d); if err!=nil{t.Fatal(err)}
  t1:=time.Now(); su:=s.Summary(); su.Users=nil
  fmt.Printf("%v %v %+v\n",t1.Sub(t0),time.Since(t1),su)
 }
 for _,c:=range []struct{n string; p sim.NewPolicy; infra, perf float64}{{"easy",policy.EASY,1,1},{"fcfs",policy.FCFS,1,1},{"perf*2",policy.EASY,1,2},{"perf/2",policy.EASY,1,.5},{"infra*2",policy.EASY,2,1},{"infra/2",policy.EASY,.5,1}} {
  for _,f:=range []replay.Feedback{{},{Model:replay.ThinkTime,Sessions:session.Delimitation{session.Arrival,0}},{Model:replay.ThinkTime,Sessions:session.Default}} {
   t0=time.Now()
   e,err:=sim.New(sim.Config{Processors:int(float64(procs)*c.infra),Policy:c.p,Performance:c.perf,Limit:sim.LimitAtLeastTwice,Lean:true,Epoch:w.Epoch}); if err!=nil{t.Fatal(err)}
   d,err:=replay.NewDriver(w,f); if err!=nil{t.Fatal(err)}
   n:=len(w.Jobs); r:=&rec{ix:map[string]int{},submit:make([]hpc.Time,n),start:make([]hpc.Time,n),end:make([]hpc.Time,n),rej:make([]bool,n)}
   for i,j:=range w.Jobs {r.ix[j.ID]=i}
   res,err:=replay.Play(context.Background(),e,w,d,r,replay.Options{}); if err!=nil{t.Fatal(err)}
   el:=time.Since(t0)
   var first,last hpc.Time; first=1<<62; var wait, mx, late float64; k:=0; latea:=0.0
   for i:=range w.Jobs { l:=r.submit[i].Sub(w.Jobs[i].Submit).Seconds(); late+=l; if r.rej[i]{continue}; latea+=l; k++; first=min(first,r.submit[i]); last=max(last,r.end[i]); x:=r.start[i].Sub(r.submit[i]).Seconds(); wait+=x; mx=max(mx,x)}
   D:=86400.0
   ml:=late/float64(n); 
   fmt.Printf("%-8s %-10s %v %v rej %d makespan %.2f mean %.2f (%.1f s) max %.2f late %.2f (acc/all %.2f acc/acc %.2f) rel %.2f add %.2f  und %d\n",c.n,f.Model,f.Sessions.Threshold,el,n-k,last.Sub(first).Seconds()/D,wait/float64(k)/D,wait/float64(k),mx/D,ml/D,latea/float64(n)/D,latea/float64(k)/D,1+ml/w.Jobs[n-1].Submit.Sub(w.Jobs[0].Submit).Seconds(),2*ml/float64(n-1),len(res.Undrained))
  }
 }
}
