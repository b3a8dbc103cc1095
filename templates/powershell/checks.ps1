# One check on a computer without gpustack.
$script:Failed = 0
function Invoke-Check {
    param([Parameter(Mandatory)] [string] $Title, [Parameter(Mandatory)] [scriptblock] $Test)
    if ($DryRun) { Write-Host ('    would check: ' + $Title); return }
    $passed = $false
    try { $passed = [bool] (& $Test) } catch { Write-Host ('    ' + $_.Exception.Message) }
    if ($passed) { Write-Host ('    passed: ' + $Title); return }
    Write-Host ('    FAILED: ' + $Title)
    $script:Failed += 1
}

# Say what the checks do not prove; stop where one has failed.
function Complete-Check {
    param([string] $Note)
    Write-Host ('    ' + $Note)
    if ($script:Failed -gt 0) {
        Write-Host ('error: ' + $script:Failed + ' of the checks failed')
        exit 1
    }
}

# The compiler of this release of CUDA answers.
function Test-Compiler {
    param([string] $Release)
    $found = Get-Command -Name 'nvcc' -CommandType Application -ErrorAction SilentlyContinue | Select-Object -First 1
    return $null -ne $found -and (& $found.Source --version | Out-String).Contains('release ' + $Release + ',')
}
